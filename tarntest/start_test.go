package tarntest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/tarntest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// addGreeter adds a controller that gives each namespace a greeting.
func addGreeter(cluster *tarn.Cluster) error {
	namespaces, err := tarn.MirrorOf[*corev1.Namespace](cluster)
	if err != nil {
		return err
	}
	greetings, err := tarn.MirrorOf[*corev1.ConfigMap](cluster)
	if err != nil {
		return err
	}
	client := greetings.Client()
	_, err = tarn.NewController(cluster, "greeter", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
		welcome := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Name, Name: "welcome"}}
		_, _, err := client.CreateOrUpdate(ctx, welcome, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"text": "Welcome"}
			return nil
		})
		return tarn.Result{}, err
	}, tarn.For(namespaces))
	return err
}

var (
	shop    = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	welcome = tarn.Key{Namespace: "shop", Name: "welcome"}
)

func create(t testing.TB, env *tarntest.Env, obj runtime.Object) {
	t.Helper()
	if _, err := env.Server.Create(obj); err != nil {
		t.Fatal(err)
	}
}

func greeted(env *tarntest.Env) bool {
	m, err := tarntest.Get[*corev1.ConfigMap](env, welcome)
	return err == nil && m.Data["text"] == "Welcome"
}

func TestAControllerRunsInVirtualTimeWithFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := tarntest.Start(t, tarntest.Options{Controllers: addGreeter, Prepare: func(server *apiserver.Server) error {
			for _, f := range []apiserver.Fault{
				{Kind: apiserver.CutWatch, After: 1},
				{Kind: apiserver.Unavailable, Resource: "configmaps", Times: 3},
				{Kind: apiserver.KillBefore, Resource: "configmaps", Verb: "create", Times: 1},
			} {
				if _, err := server.Inject(f); err != nil {
					return err
				}
			}
			return nil
		}})
		before := env.Cluster()
		create(t, env, shop)
		env.Eventually("greeted", func() bool { return greeted(env) })
		if env.Cluster() == before {
			t.Error("the killed program did not start again")
		}
		if status := env.Cluster().Status(); !status.Running {
			t.Error(status)
		}
	})
}

func TestAControllerRunsInRealTime(t *testing.T) {
	env := tarntest.Start(t, tarntest.Options{Controllers: addGreeter, Server: apiserver.Options{Address: "127.0.0.1:0"}, Limit: time.Hour})
	create(t, env, shop)
	env.Eventually("greeted", func() bool { return greeted(env) })
}

func TestAControllerIsExplored(t *testing.T) {
	apiserver.Explore(t, apiserver.ExploreOptions{SameState: true}, func(t testing.TB, server *apiserver.Server) {
		env := tarntest.Start(t, tarntest.Options{On: server, Controllers: addGreeter})
		create(t, env, shop)
		env.Eventually("greeted", func() bool { return greeted(env) })
		if err := server.WaitIdle(t.Context(), time.Minute); err != nil { // the other namespaces are greeted, too
			t.Error(err)
		}
	})
}

// Lamp is a custom resource.
type Lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	On                bool `json:"on,omitempty"`
}

// APIResource says where lamps are served.
func (*Lamp) APIResource() object.Resource {
	return object.Resource{Group: "example.com", Version: "v1", Resource: "lamps", Kind: "Lamp"}
}

// DeepCopyObject implements runtime.Object.
func (l *Lamp) DeepCopyObject() runtime.Object {
	c := *l
	c.ObjectMeta = *l.ObjectMeta.DeepCopy()
	return &c
}

func TestGetReturnsAnyType(t *testing.T) {
	env := tarntest.Start(t, tarntest.Options{Prepare: func(server *apiserver.Server) error {
		return server.Define(apiserver.Definition{Resource: new(Lamp).APIResource()})
	}})
	create(t, env, &Lamp{ObjectMeta: metav1.ObjectMeta{Name: "hall"}, On: true})
	lamp, err := tarntest.Get[*Lamp](env, tarn.Key{Name: "hall"})
	if err != nil || !lamp.On || lamp.Kind != "Lamp" {
		t.Errorf("%+v, %v", lamp, err)
	}
	lamp.On = false
	if _, err := env.Server.Update(lamp); err != nil {
		t.Error(err)
	}
	if lamp, err := tarntest.Get[*Lamp](env, tarn.Key{Name: "hall"}); err != nil || lamp.On {
		t.Errorf("%+v, %v", lamp, err)
	}
	if _, err := tarntest.Get[*corev1.ConfigMap](env, welcome); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// A person or another program may be denied something in the same test.
func TestDenialsOfOthersAreNotThoseOfTheServiceAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := tarntest.Start(t, tarntest.Options{ServiceAccount: tarn.Key{Namespace: "default", Name: "greeter"}})
		for _, name := range []string{"greet", "greeter2"} {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			if _, err := env.Server.Create(account); err != nil {
				t.Fatal(err)
			}
			cfg, err := env.Server.ServiceAccountConfig("default", name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
			if !apierrors.IsForbidden(err) {
				t.Errorf("listing pods as %s: %v", name, err)
			}
		}
		if denied := env.Server.Denied(); len(denied) != 2 {
			t.Errorf("denied: %q", denied)
		}
	})
}

// failing has tests that fail, each run by TestAFailureIsReported in a process of its own.
var failing = map[string]struct {
	test func(t *testing.T)
	want []string // in this order
}{
	"fatal": {func(t *testing.T) {
		env := tarntest.Start(t, tarntest.Options{Controllers: addGreeter, Prepare: func(server *apiserver.Server) error {
			_, err := server.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "configmaps", Verb: "create"})
			return err
		}})
		create(t, env, shop)
		<-time.After(time.Second)
		if !greeted(env) {
			t.Fatal("shop is not greeted")
		}
	}, []string{"shop is not greeted", "the log of the program:", "level=WARN", "the requests of the failed test:", "start 1: create configmaps shop: 403, forbidden"}},
	"eventually": {func(t *testing.T) {
		env := tarntest.Start(t, tarntest.Options{})
		env.Eventually("greeted", func() bool { return greeted(env) })
	}, []string{"after 1m0s: not greeted", "the log of the program:\n", "nothing"}},
	"controllers": {func(t *testing.T) {
		tarntest.Start(t, tarntest.Options{Controllers: func(*tarn.Cluster) error { return errors.New("no such flag") }})
	}, []string{"no such flag"}},
	"controllers by fatal": {func(t *testing.T) {
		tarntest.Start(t, tarntest.Options{Controllers: func(*tarn.Cluster) error { t.Fatal("no such file"); return nil }})
	}, []string{"no such file", "the function that makes the program did not return"}},
	"permissions that do not count": {func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{})
		tarntest.Start(t, tarntest.Options{On: server, ServiceAccount: tarn.Key{Namespace: "default", Name: "greeter"}})
	}, []string{"needs a server that evaluates permissions"}},
	"prepare": {func(t *testing.T) {
		tarntest.Start(t, tarntest.Options{Prepare: func(s *apiserver.Server) error { return s.LoadYAML([]byte("kind: Lake")) }})
	}, []string{"loading objects"}},
	"service account": {func(t *testing.T) {
		env := tarntest.Start(t, tarntest.Options{Controllers: addGreeter, ServiceAccount: tarn.Key{Namespace: "default", Name: "greeter"}})
		<-time.After(time.Second)
		_ = env
	}, []string{"the ServiceAccount default/greeter lacks 4 permissions", "log of the program", `cannot list resource "configmaps"`}},
}

const failingTest = "TARN_FAILING_TEST"

func TestTheOneThatFails(t *testing.T) {
	name := os.Getenv(failingTest)
	if name == "" {
		t.Skip("for TestAFailureIsReported")
	}
	synctest.Test(t, failing[name].test)
}

func TestAFailureIsReported(t *testing.T) {
	for name, c := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestTheOneThatFails$")
			cmd.Env = append(os.Environ(), failingTest+"="+name)
			out, err := cmd.CombinedOutput()
			text := string(out)
			if err == nil || strings.Contains(text, "deadlock") || strings.Count(text, "\n") > 100 {
				t.Errorf("%v\n%s", err, text)
			}
			rest := text
			for _, want := range c.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("%q does not follow in\n%s", want, text)
				}
				rest = after
			}
		})
	}
}

func TestTheLogIsBounded(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestManyLines$")
	cmd.Env = append(os.Environ(), failingTest+"=lines")
	out, err := cmd.CombinedOutput()
	lines := regexp.MustCompile(`level=INFO msg=line .*n=\d+`).FindAllString(string(out), -1)
	if err != nil || len(lines) != 300 || !strings.HasSuffix(lines[len(lines)-1], "n=999") || !strings.Contains(string(out), "700 earlier lines\n") {
		t.Errorf("%v: %d lines:\n%s", err, len(lines), out)
	}
}

func TestManyLines(t *testing.T) {
	if os.Getenv(failingTest) == "" {
		t.Skip("for TestTheLogIsBounded")
	}
	synctest.Test(t, func(t *testing.T) {
		tarntest.Start(t, tarntest.Options{Controllers: func(cluster *tarn.Cluster) error {
			once := controller.Channel("once", oneKey())
			_, err := tarn.NewController(cluster, "talker", func(ctx context.Context, _ tarn.Key) (tarn.Result, error) {
				for n := range 1000 {
					controller.Logger(ctx).Info("line", "n", n)
				}
				return tarn.Result{}, nil
			}, tarn.From(once))
			return err
		}})
		<-time.After(time.Second)
	})
}

func oneKey() <-chan tarn.Key {
	keys := make(chan tarn.Key, 1)
	keys <- welcome
	return keys
}
