package controller_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client writes to a server and tracks the writes.
type client[T simtest.Object] struct {
	*controller.Tracked[T]
	api    *wire.API[T]
	before func(context.Context) error // called before each attempt; its error refuses the write
}

type podClient = client[*corev1.Pod]

// none are the options of writes.
type none struct{}

func newClient[T simtest.Object](srv *simtest.Server[T], inf *informer.Informer[T]) *client[T] {
	return &client[T]{controller.Track(inf), srv.Client(), func(context.Context) error { return nil }}
}

func (c *client[T]) write(ctx context.Context, key object.Key, do func(ctx context.Context) (T, error)) (T, error) {
	return c.Write(ctx, key, func(ctx context.Context) (obj T, err error) {
		if err := c.before(ctx); err != nil {
			return obj, err
		}
		return do(ctx)
	})
}

func (c *client[T]) Create(ctx context.Context, obj T, _ none) (T, error) {
	return c.write(ctx, simtest.KeyOf(obj), func(ctx context.Context) (T, error) { return c.api.Create(ctx, obj, wire.WriteOptions{}) })
}

func (c *client[T]) Update(ctx context.Context, obj T, _ none) (T, error) {
	return c.write(ctx, simtest.KeyOf(obj), func(ctx context.Context) (T, error) { return c.api.Update(ctx, obj, wire.WriteOptions{}) })
}

func (c *client[T]) replace(ctx context.Context, obj T) (T, error) { return c.Update(ctx, obj, none{}) }

// replace returns what updates an object without tracking that.
func replace[T simtest.Object](srv *simtest.Server[T]) func(ctx context.Context, obj T) (T, error) {
	return func(ctx context.Context, obj T) (T, error) { return srv.Client().Update(ctx, obj, wire.WriteOptions{}) }
}

// Patch lets a function change the object that the server has.
func (c *client[T]) Patch(ctx context.Context, key object.Key, patch func(T), _ none) (T, error) {
	return c.write(ctx, key, func(ctx context.Context) (T, error) {
		obj, err := c.api.Get(ctx, key, wire.GetOptions{})
		if err != nil {
			return obj, err
		}
		patch(obj)
		return c.api.Update(ctx, obj, wire.WriteOptions{})
	})
}

// Apply gives an object the labels and finalizers of config, which is an object too.
func (c *client[T]) Apply(ctx context.Context, key object.Key, config T, opts none) (T, error) {
	return c.Patch(ctx, key, func(obj T) {
		obj.SetLabels(config.GetLabels())
		obj.SetFinalizers(config.GetFinalizers())
	}, opts)
}

func (c *client[T]) Delete(ctx context.Context, key object.Key, _ none) error {
	return c.Tracked.Delete(ctx, key, func(ctx context.Context) (d object.Deletion, err error) {
		if err := c.before(ctx); err != nil {
			return d, err
		}
		return c.api.DeleteReturning(ctx, key, atOnce)
	})
}

var atOnce = wire.DeleteOptions{GracePeriod: new(time.Duration(0))}

// deleteAsUser deletes an object as a user does: one that has finalizers is only marked.
func deleteAsUser[T simtest.Object](s *simtest.Server[T], key string) {
	if err := s.Client().Delete(context.Background(), object.RawKey(key), atOnce); err != nil {
		panic(err)
	}
}

func newInformer[T controller.Object](name string, s *simtest.Server[T]) *informer.Informer[T] {
	var resource object.Resource // one of the owners in these tests
	switch any(*new(T)).(type) {
	case *corev1.Namespace:
		resource = object.Resource{Version: "v1", Resource: "namespaces", Kind: "Namespace"}
	case *corev1.ConfigMap:
		resource = object.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	}
	inf, err := informer.New(s, object.Meta[T](), informer.Options[T]{
		Name: name, Resource: resource, Reflector: reflector.Options[T]{Streaming: reflector.StreamingOff},
	})
	if err != nil {
		panic(err)
	}
	return inf
}

// start runs parts, and returns what stops them and returns their error. The test stops
// them at its end at the latest.
func start(t testing.TB, parts ...controller.Runner) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, parts...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

type (
	options = controller.Options[object.Key]
	result  = controller.Result
)

func newController(t testing.TB, reconcile controller.Func[object.Key], opts options, sources ...controller.Source[object.Key]) *controller.Controller[object.Key] {
	t.Helper()
	c, err := controller.New("web", reconcile, opts, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// label is an edit of an object.
func label[T controller.Object](key, value string) func(T) {
	return func(obj T) {
		labels := maps.Clone(obj.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		obj.SetLabels(labels)
	}
}
