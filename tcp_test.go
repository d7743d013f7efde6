package tarn_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// untilLate returns a context that ends shortly before the test deadline.
func untilLate(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if deadline, ok := t.Deadline(); ok {
		ctx, cancel = context.WithDeadline(context.Background(), deadline.Add(-5*time.Second))
	}
	t.Cleanup(cancel)
	return ctx
}

// Handles, a controller and read-your-writes over TCP and TLS.
func TestH10_ControllersUseHandlesAndReadTheirOwnWrites(t *testing.T) {
	srv := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true})
	c := connect(t, tarn.WithConfig(srv.Config()))
	namespaces := must(tarn.MirrorOf[*corev1.Namespace](c))
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](c, tarn.Drop(object.ManagedFields)))
	writer := controller.Track(maps.Informer())

	greeted := make(chan string, 100)
	welcome := func(ctx context.Context, ns object.Key) (controller.Result, error) {
		at := object.Key{Namespace: ns.Name, Name: "welcome"}
		if _, ok, err := writer.Get(at); ok || err != nil {
			if ok {
				greeted <- ns.Name
			}
			return controller.Result{}, err
		}
		_, err := writer.Write(ctx, at, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return maps.API().Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}, wire.WriteOptions{})
		})
		return controller.Result{Requeue: err == nil}, err // creating it twice would be a conflict
	}
	ctrl, err := controller.New("welcome", welcome, controller.Options[object.Key]{}, controller.For(namespaces.Informer()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(untilLate(t))
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, c, ctrl) }()
	if err := c.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.API().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, wire.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The default namespaces and shop.
	for names := map[string]bool{}; !names["shop"] || len(names) < 5; {
		select {
		case name := <-greeted:
			names[name] = true
		case <-ctx.Done():
			t.Fatalf("greeted: %v\n%v\n%v", names, c.Status(), ctrl.Status())
		}
	}
	if st := ctrl.Status(); st.Failed != 0 || st.Conflicts != 0 {
		t.Errorf("%v", st)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
