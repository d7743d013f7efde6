package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHandlers is what subscribers, waiters and controllers see.
func TestHandlers(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		here := object.Selection{Namespace: s.namespace}
		m := startMirror(t, s.config, configMaps, mirrorOptions[*corev1.ConfigMap]{
			selection: here, transform: func(cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
				if cm.Name == "bad" {
					return nil, errors.New("it does not please")
				}
				cm.ManagedFields = nil
				return cm, nil
			},
		})
		t.Run("H01 a late subscriber", func(t *testing.T) {
			m.reaches(t, w.create("b", "0"))
			ctx, stop := context.WithCancel(patience.Context(t))
			defer stop()
			var events []string
			for e := range m.Events(ctx, informer.SubOptions[*corev1.ConfigMap]{}) {
				events = append(events, fmt.Sprint(e.Kind, " ", e.New().Name, " ", e.Initial))
				if len(events) == 2 {
					w.create("c", "0")
				}
				if len(events) == 3 {
					break
				}
			}
			if strings.Contains(events[2], "true") || !strings.Contains(events[2], " c ") || !strings.HasSuffix(events[0], "true") {
				t.Errorf("received %q", events)
			}
		})
		t.Run("H06 what keeps a mirror", func(t *testing.T) {
			nothing := object.Resource{Group: "nothing.example.com", Version: "v1", Resource: "nothings", Kind: "Nothing", Namespaced: true}
			n := startMirror(t, s.config, wire.Metadata(nothing), mirrorOptions[*metav1.PartialObjectMetadata]{unsynced: true})
			patience.Until(t, "a cause", func() bool { return n.reflector().Cause != nil })
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if err := n.WaitSynced(ctx); !apierrors.IsNotFound(errorsFind(err)) {
				t.Errorf("got %v", err)
			}
		})
		t.Run("H08 a transform", func(t *testing.T) {
			w.create("bad", "0")
			m.reaches(t, w.create("good", "0"))
			if cm, ok := m.Get(object.Key{Namespace: s.namespace, Name: "good"}); !ok || len(cm.ManagedFields) > 0 {
				t.Errorf("got %v", cm)
			}
			patience.Until(t, "the bad one in quarantine", func() bool { return len(m.Status().Quarantine) == 1 })
			w.delete("bad")
		})
		t.Run("H10 reading what was written", func(t *testing.T) {
			api := wire.For(newClient(t, s), configMaps)
			for i := range 10 {
				cm, err := api.Update(patience.Context(t), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "a"}, Data: map[string]string{"value": fmt.Sprint(i)},
				}, wire.WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				m.reaches(t, cm)
				if got, _ := m.Get(object.Key{Namespace: s.namespace, Name: "a"}); got.Data["value"] != fmt.Sprint(i) {
					t.Fatalf("read %s after writing %d", got.Data["value"], i)
				}
			}
		})
		t.Run("a controller reconciles every key", func(t *testing.T) { reconcileAll(t, w, m) })
	})
}

// errorsFind returns the API's error among joined ones.
func errorsFind(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status
	}
	return err
}

func reconcileAll(t *testing.T, w writer, m *mirror[*corev1.ConfigMap]) {
	keys := make(chan object.Key, 1000)
	c, err := controller.New("conformance", func(_ context.Context, key object.Key) (controller.Result, error) {
		keys <- key
		return controller.Result{}, nil
	}, controller.Options[object.Key]{Workers: 2}, controller.For(m.Informer))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- controller.Run(ctx, c) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	w.create("reconciled", "0")
	want := map[string]bool{"a": true, "b": true, "c": true, "good": true, "reconciled": true}
	for guard := patience.Context(t); len(want) > 0; {
		select {
		case key := <-keys:
			delete(want, key.Name)
		case <-guard.Done():
			t.Fatalf("never reconciled: %v", want)
		}
	}
}
