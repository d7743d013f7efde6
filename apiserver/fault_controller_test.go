package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestFaultsOfWrites(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"))
	for _, c := range []struct {
		kind                 apiserver.FaultKind
		method, path, body   string
		code                 int
		reason, message      string
		otherMethod, another string // a request that the fault does not hit
	}{
		{apiserver.Conflict, http.MethodPut, pods + "/a", `{"metadata":{"name":"a"}}`, 409, "Conflict", `pods "a": the object has been modified`, http.MethodPost, `{"metadata":{"name":"b"}}`},
		{apiserver.Conflict, http.MethodDelete, pods + "/a", "", 409, "Conflict", "has been modified", http.MethodPost, `{"metadata":{"name":"c"}}`},
		{apiserver.AlreadyExists, http.MethodPost, pods, `{"metadata":{"name":"d"}}`, 409, "AlreadyExists", `pods "d" already exists`, http.MethodGet, ""},
		{apiserver.WebhookDown, http.MethodPost, pods, `{"metadata":{"name":"d"}}`, 500, "InternalError", "failed calling webhook", http.MethodGet, ""},
	} {
		inject(t, s, apiserver.Fault{Kind: c.kind, Resource: "pods", Times: 1})
		if a := do(t, s, c.otherMethod, pods, c.another); a.code >= 300 {
			t.Errorf("%s hit %s: %s", c.kind, c.otherMethod, a.raw)
		}
		do(t, s, c.method, c.path, c.body, "Content-Type", "application/json").refused(t, c.code, c.reason, c.message)
	}
	if names := get(t, s, pods).names(); strings.Join(names, " ") != "a b c" {
		t.Errorf("stored: %v", names)
	}
}

func TestAFaultEndsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		inject(t, s, apiserver.Fault{Kind: apiserver.Forbidden, Resource: "pods", For: 30 * time.Second})
		for i, want := range []int{403, 403, 403, 200} {
			if a := get(t, s, pods); a.code != want {
				t.Errorf("after %d s: %d, want %d", i*10, a.code, want)
			}
			<-time.After(10 * time.Second)
		}
		if left := s.Faults(); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestAFaultPassesTheFirstRequests(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	inject(t, s, apiserver.Fault{Kind: apiserver.Unavailable, Verb: "write", After: 2, Times: 1})
	var codes []int
	for _, name := range []string{"a", "b", "c", "d"} {
		codes = append(codes, do(t, s, http.MethodPost, pods, `{"metadata":{"name":"`+name+`"}}`).code, get(t, s, pods).code)
	}
	for i, code := range codes {
		if want := i == 4; (code == 503) != want {
			t.Errorf("request %d: %d", i, code)
		}
	}
}

func TestKilledProcesses(t *testing.T) {
	for kind, stored := range map[apiserver.FaultKind]bool{apiserver.KillBefore: false, apiserver.KillAfter: true} {
		for _, http2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := apiserver.Start(t, apiserver.Options{HTTP2: http2})
				inject(t, s, apiserver.Fault{Kind: kind, After: 1, Times: 1})
				p, other := s.Process("controller"), s.Process("other")
				defer other.Kill()
				clients := clientsetOf(t, p.Config()).CoreV1().Pods("default")
				w := must(clients.Watch(t.Context(), metav1.ListOptions{}))
				defer w.Stop()
				if _, err := clients.Create(t.Context(), pod("a"), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				<-w.ResultChan()
				if _, err := clients.Create(t.Context(), pod("b"), metav1.CreateOptions{}); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
					t.Errorf("%s: the killed process got an answer: %v", kind, err)
				}
				<-p.Killed()
				for range w.ResultChan() { // what had been sent
				}
				if _, err := clients.List(t.Context(), metav1.ListOptions{}); err == nil {
					t.Errorf("%s: a killed process can read", kind)
				}
				_, err := clientsetOf(t, other.Config()).CoreV1().Pods("default").Get(t.Context(), "b", metav1.GetOptions{})
				if apierrors.IsNotFound(err) == stored {
					t.Errorf("%s: %v", kind, err)
				}
			})
		}
	}
}

func TestAKillOfAnotherClientDropsTheConnection(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	inject(t, s, apiserver.Fault{Kind: apiserver.KillAfter, Times: 1})
	if _, err := send(t.Context(), s, http.MethodPost, pods, `{"metadata":{"name":"a"}}`); err == nil {
		t.Error("the response was sent")
	}
	if a := get(t, s, pods+"/a"); a.code != http.StatusOK {
		t.Errorf("%d %s", a.code, a.raw)
	}
}

func TestAnotherHolderTakesTheLease(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	holder, seconds := "me", int32(15)
	fill(t, s, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	})
	inject(t, s, apiserver.Fault{Kind: apiserver.LeaderLost, Times: 1})
	leases := clientset(t, s).CoordinationV1().Leases("default")
	mine := must(leases.Get(t.Context(), "web", metav1.GetOptions{}))
	if _, err := leases.Update(t.Context(), mine, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("the renewal: %v", err)
	}
	now := must(leases.Get(t.Context(), "web", metav1.GetOptions{})).Spec
	if *now.HolderIdentity == "me" || *now.LeaseTransitions != 1 || now.RenewTime == nil || *now.LeaseDurationSeconds != 15 {
		t.Errorf("%+v", now)
	}
}

func TestAStaleCacheIsBehindByItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		<-time.After(time.Minute)
		fill(t, s, pod("a"))
		inject(t, s, apiserver.Fault{Kind: apiserver.StaleCache, Resource: "pods", Wait: 5 * time.Second})
		if names := get(t, s, pods).names(); len(names) != 1 {
			t.Errorf("a consistent list has %v", names)
		}
		if names := get(t, s, pods+"?resourceVersion=0").names(); len(names) != 0 {
			t.Errorf("a list from the cache has %v", names)
		}
		began := time.Now()
		w := watching(t, s, pods+"?watch=1&resourceVersion=0")
		w.expect(t, "ADDED a 14")
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("the object appeared after %v", d)
		}
		<-time.After(time.Second)
		b := fill(t, s, pod("b"))
		<-time.After(time.Second)
		c := fill(t, s, pod("c"))
		began = time.Now()
		w.expect(t, "ADDED b "+b)
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("b came after %v", d)
		}
		w.expect(t, "ADDED c "+c)
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("c came after %v", d)
		}
	})
}

func TestWaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		fill(t, s, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // a leader that renews its lease, and a worker that is busy for a minute
			defer close(done)
			clients := clientset(t, s)
			for i := 0; ctx.Err() == nil; i++ {
				lease, err := clients.CoordinationV1().Leases("default").Get(ctx, "web", metav1.GetOptions{})
				if err == nil {
					_, err = clients.CoordinationV1().Leases("default").Update(ctx, lease, metav1.UpdateOptions{})
				}
				if i < 30 && err == nil {
					_, err = clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
				}
			}
		}()
		short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := s.WaitIdle(short, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while busy: %v", err)
		}
		if err := s.WaitIdle(t.Context(), 10*time.Second); err != nil {
			t.Error(err)
		}
		if d := time.Since(began(t)); d < 68*time.Second || d > 70*time.Second {
			t.Errorf("idle after %v", d)
		}
		before := time.Now()
		fill(t, s, pod("a")) // a change without a request
		if err := s.WaitIdle(t.Context(), 10*time.Second); err != nil || time.Since(before) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(before))
		}
		stop()
		<-done
	})
}

// A client that retries is not idle, whatever the server refuses. When it stops, WaitIdle ends.
func TestWaitIdleWaitsForRetriesOfRefusedRequests(t *testing.T) {
	for _, test := range []struct {
		name, path string
		busy       bool
	}{
		{"denied list", "/api/v1/namespaces/default/secrets", true},
		{"denied watch", "/api/v1/namespaces/default/secrets?watch=1", true},
		{"denied lease", "/apis/coordination.k8s.io/v1/namespaces/default/leases/web", false},
		{"unknown resource", "/api/v1/namespaces/default/ponds", true},
		{"unknown group", "/apis/example.com/v1/ponds", true},
		{"unknown version", "/apis/apps/v9", true},
		{"discovery", "/apis/apps/v1", true},
		{"health", "/healthz", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apiserver.Start(t, apiserver.Options{RBAC: true})
				rt, err := rest.TransportFor(s.ConfigFor("ann"))
				if err != nil {
					t.Fatal(err)
				}
				client := &http.Client{Transport: rt}
				<-time.After(time.Hour)
				began, done := time.Now(), make(chan struct{})
				go func() { // retries for a minute
					defer close(done)
					for range 60 {
						response, err := client.Get(s.Config().Host + test.path)
						if err != nil {
							t.Error(err)
							return
						}
						response.Body.Close()
						<-time.After(time.Second)
					}
				}()
				<-time.After(time.Second / 2)
				if err := s.WaitIdle(t.Context(), 10*time.Second); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); test.busy != (d == 69*time.Second) {
					t.Errorf("idle after %v", d)
				}
				<-done
			})
		})
	}
}

// began returns when virtual time began.
func began(t *testing.T) time.Time {
	t.Helper()
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
}

func TestAFailedTestLogsItsRequests(t *testing.T) {
	var test failing
	s := apiserver.Start(&test, apiserver.Options{})
	do(t, s, http.MethodPost, pods, `{"metadata":{"name":"a"}}`)
	inject(t, s, apiserver.Fault{Kind: apiserver.Unavailable, Times: 1})
	get(t, s, pods+"/a")
	test.end()
	for _, want := range []string{"create pods default: 201", "get pods default/a: 503, unavailable"} {
		if !strings.Contains(test.log, want) {
			t.Errorf("no %q in the log:\n%s", want, test.log)
		}
	}
	if _, err := s.Get(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "default", Name: "a"}); err != nil {
		t.Error(err)
	}
}

// failing is a test that fails.
type failing struct {
	cleanup func()
	log     string
}

func (f *failing) Helper()                       {}
func (f *failing) Cleanup(do func())             { f.cleanup = do }
func (f *failing) Fatalf(string, ...any)         {}
func (f *failing) Errorf(string, ...any)         {}
func (f *failing) Failed() bool                  { return true }
func (f *failing) Logf(text string, args ...any) { f.log += fmt.Sprintf(text, args...) }
func (f *failing) end()                          { f.cleanup() }
