package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/tarnproject/tarn/apiserver"
)

// restrict serves an API whose user has only some rights, given as "verb resource/subresource
// namespace", and returns a kubeconfig for it with what it was asked for.
func restrict(t *testing.T, allowed func(right string) bool) (kubeconfig string, asked func() []string) {
	t.Helper()
	server, _ := serve(t, apiserver.Options{})
	proxy := forward(t, server)
	var mu sync.Mutex // guards rights
	var rights []string
	restricted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews") {
			proxy.ServeHTTP(w, req)
			return
		}
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		a := review.Spec.ResourceAttributes
		name := strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/")
		mu.Lock()
		rights = append(rights, strings.TrimSpace(name+" "+a.Namespace))
		mu.Unlock()
		review.Status.Allowed = allowed(name)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review) // the client reports a failed write
	}))
	t.Cleanup(restricted.Close)
	return kubeconfigFor(t, restricted.URL), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(rights)
	}
}

func TestDoctorChecksTheRightsOfAController(t *testing.T) {
	kubeconfig, asked := restrict(t, func(right string) bool {
		return right != "delete deployments" && right != "patch deployments/status" && right != "create leases"
	})
	r := call(t.Context(), "doctor", "pods", "--for-controller=deploy", "-A", "--wait", "1s", "--kubeconfig", kubeconfig)
	if r.code != exitFailed || r.err != "" {
		t.Errorf("%v", r)
	}
	_, rights, _ := strings.Cut(r.out, "\nRights of a controller:\n")
	golden(t, "doctor-controller", rights)
	if want := []string{
		"create deployments", "update deployments", "patch deployments", "delete deployments", "update deployments/status", "patch deployments/status",
		"update deployments/finalizers", "get leases default", "create leases default", "update leases default", "create events", "patch events",
	}; !slices.Equal(asked(), want) {
		t.Errorf("asked for %q", asked())
	}

	r = call(t.Context(), "doctor", "deploy", "--for-controller", "-n", "shop", "--wait", "1s", "-o", "json", "--kubeconfig", kubeconfig)
	var got report
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rights) != 3 || len(got.Missing) != 1 || got.Missing[0].Namespace != "shop" || len(got.Missing[0].Rules) != 3 || !got.Broken {
		t.Errorf("%v", r)
	}
}

func TestDoctorWithAllRightsIsContent(t *testing.T) {
	_, kubeconfig := serve(t, apiserver.Options{}) // it allows everything
	r := call(t.Context(), "doctor", "configmaps", "--for-controller", "--wait", "1s", "--kubeconfig", kubeconfig)
	if r.code != exitDone || strings.Contains(r.out, "missing") || !strings.Contains(r.out, "configmaps: create, update, patch, delete\n") {
		t.Errorf("%v", r)
	}
	r = call(t.Context(), "doctor", "configmaps", "--wait", "1s", "--kubeconfig", kubeconfig)
	if r.code != exitDone || strings.Contains(r.out, "controller") {
		t.Errorf("%v", r)
	}
}
