package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
)

func pod(name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Status: corev1.PodStatus{Phase: phase}}
}

// steps are what happens in the cluster, and what every version prints.
var steps = []struct {
	name string
	do   func(s *apiserver.Server) error
	want []string
}{
	{"start", func(*apiserver.Server) error { return nil }, []string{"default/a is Running", "default/b is Pending"}},
	{"create", create(pod("c", corev1.PodPending)), []string{"default/c is Pending"}},
	{"update", update(pod("c", corev1.PodRunning)), []string{"default/c is Running"}},
	{"another namespace", create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "d"}}), nil},
	{"retries", update(pod("b", corev1.PodUnknown)), slices.Repeat([]string{"default/b is Unknown"}, 6)},
	{"retries again", update(func() *corev1.Pod {
		p := pod("b", corev1.PodUnknown)
		p.Labels = map[string]string{"changed": "yes"}
		return p
	}()), slices.Repeat([]string{"default/b is Unknown"}, 6)},
	{"recovery", update(pod("b", corev1.PodRunning)), []string{"default/b is Running"}},
	{"a lost watch", func(s *apiserver.Server) error {
		s.Cut("pods")
		_, err := s.Update(pod("a", corev1.PodSucceeded))
		return err
	}, []string{"default/a is Succeeded"}},
	{"delete", func(s *apiserver.Server) error { return s.Delete(pod("a", "")) }, []string{"default/a is deleted"}},
}

func create(obj runtime.Object) func(*apiserver.Server) error {
	return func(s *apiserver.Server) error {
		_, err := s.Create(obj)
		return err
	}
}

func update(obj runtime.Object) func(*apiserver.Server) error {
	return func(s *apiserver.Server) error {
		_, err := s.Update(obj)
		return err
	}
}

func TestAllVersionsPrintTheSame(t *testing.T) {
	for version, run := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.Start(t, apiserver.Options{Seed: 1})
				for _, obj := range []*corev1.Pod{pod("a", corev1.PodRunning), pod("b", corev1.PodPending)} {
					if _, err := server.Create(obj); err != nil {
						t.Fatal(err)
					}
				}
				var printed output
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- run(ctx, server.MemoryConfig(), "default", &printed) }()
				for _, step := range steps {
					if err := step.do(server); err != nil {
						t.Fatal(step.name, err)
					}
					// Of virtual time. All steps together take less than the 5 minutes after which
					// client-go may end a watch and, if that happens within a second of the lost
					// one, lists again.
					<-time.After(10 * time.Second)
					synctest.Wait()
					if diff := cmp.Diff(step.want, printed.take()); diff != "" {
						t.Errorf("%s: (-want +got)\n%s", step.name, diff)
					}
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// output collects what a version prints.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// take returns the sorted lines since the last call. Different keys have no order.
func (o *output) take() (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	o.text.Reset()
	slices.Sort(lines)
	return lines
}
