package clients

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/e2e/patience"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The website example works on a real control plane as its README says: kubectl installs it, and
// the program runs with the permissions of its service account and nothing else.
func TestTheWebsiteExampleWorks(t *testing.T) {
	plane := shared.Plane(t)
	s := newServer(t, "real", plane.Config(), plane.Address(), nil)
	k := newKubectl(t, s)
	ctl := func(args ...string) string {
		t.Helper()
		out, ok := k.run("", args...)
		if !ok {
			t.Fatalf("kubectl %s: %s", strings.Join(args, " "), out)
		}
		return out
	}
	config := filepath.Join("..", "..", "examples", "website", "config")
	ctl("apply", "-k", config)
	ctl("wait", "--for=condition=Established", "crd/websites.example.com", "--timeout=2m")
	account, err := plane.TokenConfig(patience.Context(t), "website-system", "website")
	if err != nil {
		t.Fatal(err)
	}
	program := startWebsite(t, server{config: account, namespace: "default"})

	clients := s.clientset(t)
	ctl("apply", "-f", filepath.Join(config, "sample.yaml"))
	var deployment *appsv1.Deployment
	patience.Until(t, "a deployment", func() bool {
		deployment, err = clients.AppsV1().Deployments("default").Get(t.Context(), "shop", metav1.GetOptions{})
		return err == nil
	})
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	if _, err := clients.AppsV1().Deployments("default").UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctl("wait", "--for=condition=Ready", "website/shop", "-n", "default", "--timeout=2m")
	if out := ctl("get", "website", "shop", "-n", "default"); !strings.Contains(out, "shop.example.com") {
		t.Error(out)
	}
	if out := ctl("get", "service", "shop", "-n", "default", "-o", "jsonpath={.metadata.ownerReferences[0].kind}"); out != "Website" {
		t.Errorf("the owner of the service: %s", out)
	}
	patience.Until(t, "an event", func() bool {
		out, _ := k.run("", "get", "events", "-n", "default")
		return strings.Contains(out, "website/shop") && strings.Contains(out, "Deployed")
	})
	ctl("delete", "website", "shop", "-n", "default", "--timeout=2m") // waits for the finalizer
	if out := program.output(); !strings.Contains(out, "host=shop.example.com present=false") || strings.Contains(out, "forbidden") {
		t.Errorf("the program's log:\n%s", out)
	}
}

// website is the running program.
type website struct {
	mu  sync.Mutex // guards out
	out bytes.Buffer
}

// Write receives the program's log.
func (w *website) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *website) output() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// startWebsite builds the program and runs it until the test ends.
func startWebsite(t *testing.T, s server) *website {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "website")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/tarnproject/tarn/examples/website").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w := &website{}
	cmd := exec.Command(binary, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig(t))
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program: %v\n%s", err, w.output())
		}
	})
	return w
}
