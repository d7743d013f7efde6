package operators

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/operators/cronjob"
	"github.com/tarnproject/tarn/e2e/operators/memcached"
	"github.com/tarnproject/tarn/e2e/patience"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"
)

// shared is the real control plane of this package's tests.
var shared controlplane.Shared

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(shared.Run(m))
}

// schemas is shared by all servers: each definition is compiled once.
var schemas = crd.Schemas()

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cronjob.AddToScheme, memcached.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// operator adds its controllers to a manager.
type operator func(ctx context.Context, mgr ctrl.Manager) error

func cronJobs(ctx context.Context, mgr ctrl.Manager) error {
	return (&cronjob.Reconciler{Client: mgr.GetClient()}).SetupWithManager(ctx, mgr)
}

func memcacheds(_ context.Context, mgr ctrl.Manager) error {
	return (&memcached.Reconciler{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("memcached-controller")}).SetupWithManager(mgr)
}

// run runs the operator as its main function would, until ctx ends.
func (o operator) run(ctx context.Context, cfg *rest.Config) error { return o.with(nil)(ctx, cfg) }

// program runs until ctx ends.
type program func(ctx context.Context, cfg *rest.Config) error

// with is run with a cache; nil is controller-runtime's.
func (o operator) with(newCache cache.NewCacheFunc) program {
	return func(ctx context.Context, cfg *rest.Config) error { return o.runWith(ctx, cfg, newCache) }
}

func (o operator) runWith(ctx context.Context, cfg *rest.Config, newCache cache.NewCacheFunc) error {
	again := true // the tests start it more than once in a process
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache: newCache,
		Scheme:   scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller:    config.Controller{SkipNameValidation: &again},
		WebhookServer: inProcess{webhook.NewServer(webhook.Options{})},
	})
	if err != nil {
		return err
	}
	if err := o(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (o operator) start(t *testing.T, cfg *rest.Config) { t.Helper(); program(o.run).start(t, cfg) }

// start runs the program until the test ends.
func (p program) start(t *testing.T, cfg *rest.Config) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the operator: %v", err)
		}
	})
}

// newClient returns a client without a cache.
func newClient(t testing.TB, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// caches are those that the operators run with.
var caches = map[string]cache.NewCacheFunc{"": nil, ", Tarn's cache": controllerruntime.NewCache}

// onBoth runs a test of an operator on the embedded and on the real server, with each cache, in a new namespace.
func onBoth(t *testing.T, o operator, definition []byte, test func(t *testing.T, c client.Client, namespace string)) {
	for with, newCache := range caches {
		on := func(t *testing.T, cfg *rest.Config) {
			c := newClient(t, cfg)
			define(t, c, definition)
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operators-"}}
			create(t, c, ns)
			o.with(newCache).start(t, cfg)
			test(t, c, ns.Name)
		}
		t.Run("embedded"+with, func(t *testing.T) {
			on(t, apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true, Schemas: schemas}).Config())
		})
		t.Run("real"+with, func(t *testing.T) { on(t, shared.Plane(t).Config()) })
	}
}

// define creates a CustomResourceDefinition and waits until it is established and its kind is discovered.
func define(t *testing.T, c client.Client, definition []byte) {
	t.Helper()
	wanted := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(definition, &wanted.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(patience.Context(t), wanted.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	patience.Until(t, "the definition is established", func() bool {
		found := wanted.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(wanted), found); err != nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition := c.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == "True"
		})
	})
	group, _, _ := unstructured.NestedString(wanted.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(wanted.Object, "spec", "names", "kind")
	patience.Until(t, "the kind is discovered", func() bool {
		_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		return err == nil
	})
}

func create(t testing.TB, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}
