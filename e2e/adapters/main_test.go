package adapters

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/e2e/sample"
)

// shared is the real control plane of this package's tests. Those that run in parallel do
// not stop parts of it.
var shared controlplane.Shared

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(shared.Run(m))
}

// server is what a test runs on. It serves the sample's custom resource.
type server struct {
	config *rest.Config // an administrator's, through the proxy
	direct *rest.Config // the same without it
	proxy  *controlplane.Proxy
	end    func() error // ends it, and its history
	start  func() error // starts it again
}

func embedded(t *testing.T) server {
	t.Helper()
	e := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true})
	return newServer(t, e.Config(), e.Addr().String(),
		func() error { e.Compact(0); e.RefuseConnections(true); return nil },
		func() error { e.RefuseConnections(false); return nil })
}

func genuine(t *testing.T) server {
	t.Helper()
	plane := shared.Plane(t)
	return newServer(t, plane.Config(), plane.Address(),
		func() error { return errors.Join(plane.Compact(patience.Context(t), 0), plane.APIServer.Kill()) },
		func() error { return plane.APIServer.Start(patience.Context(t)) })
}

// onBoth runs a test on the embedded and on the real server.
func onBoth(t *testing.T, test func(t *testing.T, s server)) {
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t)) })
	t.Run("real", func(t *testing.T) { test(t, genuine(t)) })
}

func newServer(t *testing.T, direct *rest.Config, address string, end, start func() error) server {
	t.Helper()
	direct.QPS = -1
	proxy := controlplane.StartProxy(t, address)
	s := server{config: proxy.Config(direct), direct: direct, proxy: proxy, end: end, start: start}
	s.define(t)
	return s
}

// defining keeps tests that run in parallel from defining the custom resource at once.
var defining sync.Mutex

// define makes the custom resource, if there is none, and waits until it is served and
// clients can discover it.
func (s server) define(t *testing.T) {
	t.Helper()
	defining.Lock()
	defer defining.Unlock()
	definitions := must[dynamic.Interface](t)(dynamic.NewForConfig(s.direct)).
		Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	ctx := patience.Context(t)
	if _, err := definitions.Create(ctx, sample.Definition(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	foos := s.sample(t).SamplecontrollerV1alpha1().Foos("")
	patience.Until(t, "the custom resource is served", func() bool {
		_, err := foos.List(ctx, metav1.ListOptions{})
		return err == nil
	})
	discovery := s.kube(t).Discovery()
	patience.Until(t, "the custom resource is discovered", func() bool {
		list, err := discovery.ServerResourcesForGroupVersion(sample.Version.String())
		return err == nil && len(list.APIResources) > 0
	})
}

// kube and sample return clientsets that do not go through the proxy.
func (s server) kube(t *testing.T) kubernetes.Interface {
	t.Helper()
	return must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(s.direct))
}

func (s server) sample(t *testing.T) sample.Interface {
	t.Helper()
	return must[sample.Interface](t)(sample.NewForConfig(s.direct))
}

func (s server) newNamespace(t *testing.T) string {
	t.Helper()
	ns := must[*corev1.Namespace](t)(s.kube(t).CoreV1().Namespaces().Create(patience.Context(t),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "adapters-"}}, metav1.CreateOptions{}))
	return ns.Name
}

// missed makes a change that no client behind the proxy sees, and that the server, which
// restarts, has compacted.
func (s server) missed(t *testing.T, happen func()) {
	t.Helper()
	if err := s.proxy.Refuse(true); err != nil {
		t.Fatal(err)
	}
	s.proxy.Cut()
	happen()
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if err := s.proxy.Refuse(false); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// reads counts the reads of whole resources through a configuration, which is what
// informers do and controllers do not.
func reads(config *rest.Config) (*rest.Config, *atomic.Int64) {
	n := &atomic.Int64{}
	config = rest.CopyConfig(config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counter{rt, n} })
	return config, n
}

type counter struct {
	http.RoundTripper
	reads *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c counter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && (strings.HasSuffix(req.URL.Path, "/foos") || strings.HasSuffix(req.URL.Path, "/deployments")) {
		c.reads.Add(1)
	}
	return c.RoundTripper.RoundTrip(req)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
