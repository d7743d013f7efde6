package clients

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
)

// shared is the real control plane of this package's tests.
var shared controlplane.Shared

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(shared.Run(m))
}

// server is what a test runs on.
type server struct {
	name      string
	config    *rest.Config // an administrator's, through the proxy
	direct    *rest.Config // the same without it
	namespace string       // of this test alone
	proxy     *controlplane.Proxy
	streamed  *atomic.Int32    // requests for streaming lists so far, through config
	forget    func(*testing.T) // makes it forget its history
}

// onBoth runs a test on the embedded and on the real server.
func onBoth(t *testing.T, test func(t *testing.T, s server)) {
	t.Run("embedded", func(t *testing.T) {
		e := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true, RBAC: true})
		test(t, newServer(t, "embedded", e.Config(), e.Addr().String(), func(*testing.T) { e.Compact(0) }))
	})
	t.Run("real", func(t *testing.T) {
		plane := shared.Plane(t)
		test(t, newServer(t, "real", plane.Config(), plane.Address(), func(t *testing.T) {
			t.Helper()
			if err := plane.Compact(patience.Context(t), 0); err != nil {
				t.Fatal(err)
			}
			// Its watch cache remembers what etcd has forgotten.
			if err := plane.APIServer.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := plane.APIServer.Start(patience.Context(t)); err != nil {
				t.Fatal(err)
			}
		}))
	})
}

func newServer(t *testing.T, name string, config *rest.Config, address string, forget func(*testing.T)) server {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := clients.CoreV1().Namespaces().Create(patience.Context(t),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clients-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	proxy := controlplane.StartProxy(t, address)
	direct := config
	config = proxy.Config(direct)
	streamed := &atomic.Int32{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counting{rt, streamed} })
	return server{name, config, direct, ns.Name, proxy, streamed, forget}
}

// counting counts the requests for streaming lists.
type counting struct {
	http.RoundTripper
	n *atomic.Int32
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.RawQuery, "sendInitialEvents=true") {
		c.n.Add(1)
	}
	return c.RoundTripper.RoundTrip(req)
}

func (s server) clientset(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// missed makes a change that no client behind the proxy sees, and that the server has
// compacted when they reconnect.
func (s server) missed(t *testing.T, happen func(*kubernetes.Clientset)) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(s.direct)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.proxy.Refuse(true); err != nil {
		t.Fatal(err)
	}
	s.proxy.Cut()
	happen(clients)
	s.forget(t)
	if err := s.proxy.Refuse(false); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig writes the file that kubectl wants, and returns its path.
func (s server) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	token := s.config.BearerToken
	if token == "" && len(s.config.CertData) == 0 {
		token = "anybody" // kubectl asks for a password otherwise
	}
	file := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"e2e": {
			Server: s.config.Host, CertificateAuthorityData: s.config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"e2e": {
			ClientCertificateData: s.config.CertData, ClientKeyData: s.config.KeyData, Token: token,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e", AuthInfo: "e2e", Namespace: s.namespace}},
		CurrentContext: "e2e",
	}
	if err := clientcmd.WriteToFile(file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// pod returns a pod that every server takes.
func pod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
	}
}
