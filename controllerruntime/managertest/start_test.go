package managertest_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/controllerruntime/managertest"
	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/tarntest"
)

// greeter gives each namespace a greeting.
type greeter struct{ client.Client }

func (g greeter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	if err := g.Get(ctx, request.NamespacedName, &ns); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "welcome"}}
	_, err := controllerutil.CreateOrUpdate(ctx, g.Client, greeting, func() error {
		greeting.Data = map[string]string{"text": "Welcome"}
		return controllerutil.SetControllerReference(&ns, greeting, g.Scheme())
	})
	return ctrl.Result{}, err
}

// newManager returns the manager of a program, with the cache that newCache makes.
func newManager(newCache cache.NewCacheFunc) func(*rest.Config, ctrl.Options) (ctrl.Manager, error) {
	return func(cfg *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
		options.NewCache = newCache
		mgr, err := ctrl.NewManager(cfg, options)
		if err != nil {
			return nil, err
		}
		return mgr, ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Owns(&corev1.ConfigMap{}).Complete(greeter{mgr.GetClient()})
	}
}

// caches are those that a manager may have.
var caches = map[string]cache.NewCacheFunc{"Tarn's": controllerruntime.NewCache, "controller-runtime's": nil}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func greeted(t *testing.T, env *managertest.Env) bool {
	t.Helper()
	var m corev1.ConfigMap
	err := env.Client().Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "welcome"}, &m)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return m.Data["text"] == "Welcome"
}

func injects(faults ...apiserver.Fault) func(*apiserver.Server) error {
	return func(server *apiserver.Server) error {
		for _, fault := range faults {
			if _, err := server.Inject(fault); err != nil {
				return err
			}
		}
		return nil
	}
}

// A manager runs in virtual time with either cache, also if each watch is cut after each event, and with a crash.
func TestAManagerRunsInVirtualTimeWithFaults(t *testing.T) {
	for name, newCache := range caches {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := managertest.Start(t, managertest.Options{Manager: newManager(newCache), Env: tarntest.Options{Prepare: injects(
					apiserver.Fault{Kind: apiserver.CutWatch, After: 1},
					apiserver.Fault{Kind: apiserver.Unavailable, Resource: "configmaps", Verb: "create", Times: 2},
					apiserver.Fault{Kind: apiserver.KillAfter, Resource: "configmaps", Verb: "create", After: 2, Times: 1},
				)}})
				first := env.Manager()
				if err := env.Client().Create(t.Context(), namespace("shop")); err != nil {
					t.Fatal(err)
				}
				testkit.Advance(5 * time.Minute)
				if !greeted(t, env) {
					t.Error("the namespace has no greeting")
				}
				if env.Manager() == first {
					t.Error("the killed manager did not start again")
				}
			})
		})
	}
}

func TestAManagerRunsInRealTime(t *testing.T) {
	env := managertest.Start(t, managertest.Options{Manager: newManager(controllerruntime.NewCache), Env: tarntest.Options{Limit: time.Hour}})
	if err := env.Client().Create(t.Context(), namespace("shop")); err != nil {
		t.Fatal(err)
	}
	env.Eventually("greeted", func() bool { return greeted(t, env) })
}

// A crash at each write, with a cache that is behind.
func TestAManagerIsExplored(t *testing.T) {
	for name, newCache := range caches {
		t.Run(name, func(t *testing.T) {
			apiserver.Explore(t, apiserver.ExploreOptions{SameState: true, StaleCache: 2 * time.Second}, func(t testing.TB, server *apiserver.Server) {
				env := managertest.Start(t, managertest.Options{Manager: newManager(newCache), Env: tarntest.Options{On: server}})
				if err := env.Client().Create(t.Context(), namespace("shop")); err != nil {
					t.Fatal(err)
				}
				if err := server.WaitIdle(t.Context(), time.Minute); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// The rules that the manager needs, as controller-gen writes them.
func manifest(verbs ...string) []runtime.Object {
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "system", Name: "manager"}
	return []runtime.Object{
		namespace("system"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "manager"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces/finalizers"}, Verbs: []string{"update"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Subjects: []rbacv1.Subject{account},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "manager"}},
	}
}

func withRules(t *testing.T, verbs ...string) *managertest.Env {
	return managertest.Start(t, managertest.Options{Manager: newManager(controllerruntime.NewCache), Env: tarntest.Options{
		ServiceAccount: tarn.Key{Namespace: "system", Name: "manager"},
		Prepare: func(server *apiserver.Server) error {
			for _, obj := range manifest(verbs...) {
				if _, err := server.Create(obj); err != nil {
					return err
				}
			}
			return nil
		},
	}})
}

func TestAManagerHasTheRulesOfItsManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := withRules(t, "get", "list", "watch", "create", "update")
		if err := env.Client().Create(t.Context(), namespace("shop")); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(time.Minute)
		if !greeted(t, env) {
			t.Error("the namespace has no greeting")
		}
	})
}

// The webhooks of the manager are called without a port.
func TestTheServerCallsTheManagersWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := 0
		env := managertest.Start(t, managertest.Options{
			Webhooks: tarn.Key{Namespace: "system", Name: "webhook-service"},
			Manager: func(cfg *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
				mgr, err := newManager(controllerruntime.NewCache)(cfg, options)
				if err == nil {
					mgr.GetWebhookServer().Register("/deny", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						called++
						http.Error(w, "broken", http.StatusInternalServerError)
					}))
				}
				return mgr, err
			},
			Env: tarntest.Options{Prepare: func(server *apiserver.Server) error { return server.Load(os.DirFS("testdata")) }},
		})
		err := env.Client().Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		if err == nil || called == 0 {
			t.Errorf("created with %v after %d calls of the webhook", err, called)
		}
	})
}

// Mistakes of a test fail it, with a message. Each case is a test of this binary that is run by the child only.
func TestMistakesFailTheTest(t *testing.T) {
	if which := os.Getenv("MANAGERTEST_MISTAKE"); which != "" {
		mistakes[which].test(t)
		return
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for which, m := range mistakes {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMistakesFailTheTest$")
		cmd.Env = append(os.Environ(), "MANAGERTEST_MISTAKE="+which)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), m.message) {
			t.Errorf("%s: %v\n%s", which, err, out)
		}
	}
}

var mistakes = map[string]struct {
	test    func(t *testing.T)
	message string
}{
	"a rule is missing": {func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			withRules(t, "get", "list", "watch")
			testkit.Advance(time.Minute)
		})
	}, `cannot create resource "configmaps"`},
	"no manager": {func(t *testing.T) { managertest.Start(t, managertest.Options{}) }, "Options.Manager is required"},
	"a cluster too": {func(t *testing.T) {
		managertest.Start(t, managertest.Options{Env: tarntest.Options{Controllers: func(*tarn.Cluster) error { return nil }}})
	}, "must be unset"},
	"the manager fails": {func(t *testing.T) {
		managertest.Start(t, managertest.Options{Manager: func(cfg *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
			options.Scheme = runtime.NewScheme()
			return newManager(controllerruntime.NewCache)(cfg, options)
		}})
	}, "no kind is registered for the type v1.Namespace"},
}
