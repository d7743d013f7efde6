package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// recorder is a TB that records failures.
type recorder struct {
	mu      sync.Mutex // guards errors
	errors  []string
	cleanup []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }
func (r *recorder) Errorf(f string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(f, a...))
}

// end runs the cleanups and returns the errors.
func (r *recorder) end() []string {
	for _, f := range r.cleanup {
		f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors
}

// poison is a log handler that panics at each request.
type poison struct{}

func (poison) Enabled(context.Context, slog.Level) bool { return true }
func (p poison) WithAttrs([]slog.Attr) slog.Handler     { return p }
func (p poison) WithGroup(string) slog.Handler          { return p }
func (poison) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "request" {
		panic("poison")
	}
	return nil
}

func TestAHandlerPanicFailsTheTestAndGets500(t *testing.T) {
	var test recorder
	s := Start(&test, Options{Logger: slog.New(poison{})})
	client := &http.Client{Transport: s.transport}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			resp, err := client.Get(memoryHost + "/api/v1/namespaces/default/configmaps?labelSelector=a%3Dpoison")
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusInternalServerError || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %v", resp.StatusCode, resp.Header)
			}
		})
	}
	wait.Wait()
	failed := test.end()
	if len(failed) != 1 || !strings.Contains(failed[0], "poison") || !strings.Contains(failed[0], "goroutine") {
		t.Errorf("the test failed with %q", failed)
	}
}

// pond is a custom object whose Go type is not in a scheme.
type pond struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Depth int `json:"depth"`
	} `json:"spec"`
	Status struct {
		Fish []string `json:"fish,omitempty"`
	} `json:"status"`
}

func (p *pond) DeepCopyObject() runtime.Object {
	twin := *p
	p.ObjectMeta.DeepCopyInto(&twin.ObjectMeta)
	return &twin
}

func TestATypedCustomObjectIsStoredUnstructured(t *testing.T) {
	s := Start(t, Options{})
	lakes := object.Resource{Group: "example.com", Version: "v1", Resource: "ponds", Kind: "Pond", Namespaced: true}
	if err := s.Define(Definition{Resource: lakes, Status: true}); err != nil {
		t.Fatal(err)
	}
	p := &pond{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Pond"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
	p.Spec.Depth = 3
	made, err := s.Create(p)
	if err != nil {
		t.Fatal(err)
	}
	if depth, _, _ := unstructured.NestedInt64(made.(*unstructured.Unstructured).Object, "spec", "depth"); depth != 3 {
		t.Errorf("got %v", made)
	}
	p.Spec.Depth, p.Status.Fish = 4, []string{"char"}
	if _, err := s.Update(p); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPut, memoryHost+"/apis/example.com/v1/namespaces/default/ponds/a", strings.NewReader(fmt.Sprintf(
		`{"apiVersion":"example.com/v1","kind":"Pond","metadata":{"name":"a","resourceVersion":"%d"},"spec":{"depth":5}}`, s.Version())))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: s.transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("PUT: %d", resp.StatusCode)
	}
	if err := s.Delete(p); err != nil {
		t.Error(err)
	}
}

func TestAnObjectOfTheWrongKindIsRejected(t *testing.T) {
	s := Start(t, Options{})
	// An object of the caller's own Go type is converted to the API type of its kind.
	named := &pond{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if obj, err := s.Create(named); err != nil {
		t.Error(err)
	} else if _, ok := obj.(*corev1.ConfigMap); !ok {
		t.Errorf("stored as %T", obj)
	}
	var none *corev1.Pod
	odd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "b"}, "data": map[string]any{"x": struct{}{}}}}
	for _, obj := range []runtime.Object{nil, none, &corev1.PodList{}, &pond{}, odd} {
		for _, write := range []func(runtime.Object) error{
			func(o runtime.Object) error { _, err := s.Create(o); return err },
			func(o runtime.Object) error { _, err := s.Update(o); return err },
		} {
			if err := write(obj); err == nil || errors.Is(err, storage.ErrCut) {
				t.Errorf("%T %v was accepted", obj, obj)
			}
		}
	}
}
