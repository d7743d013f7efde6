package conformance

import (
	"os"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// shared is the real control plane of this package's tests. It shards lists and watches, which is off
// by default in Kubernetes 1.36 and unknown before.
var shared = controlplane.Shared{Options: controlplane.Options{APIServerArgs: gates()}}

func gates() []string {
	if v := os.Getenv("KUBERNETES_VERSION"); v != "" && version.MustParseSemantic(v).LessThan(version.MajorMinor(1, 36)) {
		return nil
	}
	return []string{"--feature-gates=ShardedListAndWatch=true"}
}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// server is what a test runs on.
type server struct {
	config    *rest.Config // an administrator's
	address   string
	namespace string              // of this test alone
	plane     *controlplane.Plane // nil for the embedded one
	embedded  *apiserver.Server   // nil for the real one
}

// onBoth runs a test on the embedded and on the real server, at the same time.
func onBoth(t *testing.T, test func(t *testing.T, s server)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embedded(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, genuine(t))
	})
}

func embedded(t *testing.T) server {
	t.Helper()
	e := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true, Schemas: crd.Schemas(), RBAC: true, Strict: true, NoControllers: true})
	s := server{config: e.Config(), address: e.Addr().String(), embedded: e}
	s.namespace = s.newNamespace(t)
	return s
}

func genuine(t *testing.T) server {
	t.Helper()
	plane := shared.Plane(t)
	s := server{config: plane.Config(), address: plane.Address(), plane: plane}
	s.namespace = s.newNamespace(t)
	return s
}

// configFor returns what a user's client needs. The user "" is an administrator, "anonymous" has no
// credentials.
func (s server) configFor(t *testing.T, user string) *rest.Config {
	t.Helper()
	switch {
	case user == "":
		return s.config
	case user == "anonymous":
		config := rest.AnonymousClientConfig(s.config)
		config.QPS = -1
		return config
	case s.embedded != nil:
		return s.embedded.ConfigFor(user)
	}
	config, err := s.plane.ConfigFor(user)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (s server) clientset(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func (s server) newNamespace(t *testing.T) string {
	t.Helper()
	ns, err := s.clientset(t).CoreV1().Namespaces().Create(patience.Context(t),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// forget makes the server discard its history. The real one restarts, because its watch
// cache holds what etcd has compacted.
func (s server) forget(t *testing.T) {
	t.Helper()
	if s.embedded != nil {
		s.embedded.Compact(0)
		return
	}
	s.restart(t, func() {})
}

// restart ends the server, or makes it look so, and starts it again when meanwhile returns,
// without its history.
func (s server) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	if s.embedded != nil {
		s.embedded.RefuseConnections(true)
		s.embedded.Compact(0)
		s.embedded.Cut("")
		meanwhile()
		s.embedded.RefuseConnections(false)
		return
	}
	if err := s.plane.Compact(patience.Context(t), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.plane.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	if err := s.plane.APIServer.Start(patience.Context(t)); err != nil {
		t.Fatal(err)
	}
}
