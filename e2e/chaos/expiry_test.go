package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// Events that were made at about the same time hang on one lease of etcd, which deletes
// them all at once: their deletions have one version.
func TestW14_ObjectsThatExpireTogetherAreDeleted(t *testing.T) {
	plane := shared.Plane(t)
	config := plane.Config()
	t.Cleanup(func() { closeIdle(config) })
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e := &ensemble{}
	client, err := e.client(config)
	if err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context, in object.Scope, opts metav1.ListOptions) (contents, error) {
		all, err := clients.CoreV1().Events(string(in)).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		return encoded(pointers(all.Items), marshal[*corev1.Event])
	}
	if err := add(e, client, wire.MustOf[*corev1.Event](), reflector.StreamingAuto, []string{"default"}, "decoded", marshal, list); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		client.CloseIdleConnections()
	})
	const n = 40
	for i := range n {
		event, err := clients.CoreV1().Events("default").Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("event-%02d", i)},
			InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "thing"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		key := object.Key{Namespace: "default", Name: event.Name}
		if err := e.forms[0].reaches(ctx, key, object.Version(event.ResourceVersion)); err != nil {
			t.Fatal(err)
		}
	}
	err = patience.For(ctx, "events to expire", func() error {
		all, err := list(ctx, "default", metav1.ListOptions{})
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d events are there", len(all))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := patience.For(ctx, "the mirror to be empty", func() error { return e.forms[0].equals(contents{}) }); err != nil {
		t.Error(err)
	}
	if wrong := e.forms[0].wrong(); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	if f := e.forms[0].figures(); f.relists > 0 {
		t.Errorf("%d relists: this run proves little", f.relists)
	}
}
