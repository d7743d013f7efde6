package tarn_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testCluster is a cluster and the embedded server that it mirrors, in a synctest bubble.
type testCluster struct {
	*tarn.Cluster
	t   *testing.T
	srv *apiserver.Server
	// stop ends Run and returns its error.
	stop func() error
}

// withCluster runs a test in a bubble, with a cluster that has not been started.
func withCluster(t *testing.T, opts []tarn.ConnectOption, test func(t *testing.T, r *testCluster)) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		opts = append(opts, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.DiscardHandler)))
		test(t, &testCluster{Cluster: connect(t, opts...), t: t, srv: srv})
	})
}

func connect(t testing.TB, opts ...tarn.ConnectOption) *tarn.Cluster {
	t.Helper()
	c, err := tarn.Connect(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs the cluster until the test ends or stop is called.
func (r *testCluster) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done, ended := make(chan error, 1), false
	go func() { done <- r.Run(ctx) }()
	r.stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return <-done
	}
	r.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			r.t.Error(err)
		}
	})
	synctest.Wait()
}

// create creates objects on the server.
func (r *testCluster) create(objs ...runtime.Object) {
	r.t.Helper()
	for _, obj := range objs {
		if _, err := r.srv.Create(obj); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// watches checks how many watches of a resource are open.
func (r *testCluster) watches(resource string, want int) {
	r.t.Helper()
	synctest.Wait()
	if got := r.srv.Watches(resource); got != want {
		r.t.Errorf("%d watches of %s, want %d", got, resource, want)
	}
}

// must panics on an error.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

var widgets = object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}

func widget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	u.SetNamespace("shop")
	u.SetName(name)
	_ = unstructured.SetNestedField(u.Object, int64(3), "spec", "size")
	return u
}

func key(namespace, name string) object.Key { return object.Key{Namespace: namespace, Name: name} }

func with(opts ...tarn.ConnectOption) []tarn.ConnectOption { return opts }
