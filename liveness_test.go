package tarn_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/wire"
)

// link is the connection of one process to the embedded server with RBAC. While a resource is denied, the
// process is a user without rights for reads of it; while its watches are held, they bring nothing.
type link struct {
	next http.RoundTripper

	mu     sync.Mutex // guards all below
	denied map[string]bool
	held   chan struct{} // closed when watches go on; nil: they are not held
	down   bool
}

func newLink(srv *apiserver.Server) *link {
	return &link{next: srv.MemoryConfig().Transport, denied: map[string]bool{}}
}

func (l *link) config(srv *apiserver.Server) *rest.Config {
	config := rest.CopyConfig(srv.MemoryConfig())
	config.Transport = l
	return config
}

func (l *link) deny(resource string, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denied[resource] = on
}

func (l *link) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case on && l.held == nil:
		l.held = make(chan struct{})
	case !on && l.held != nil:
		close(l.held)
		l.held = nil
	}
}

func (l *link) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// RoundTrip implements http.RoundTripper.
func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	down, denied := l.down, false
	for resource, on := range l.denied {
		denied = denied || on && req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/"+resource)
	}
	l.mu.Unlock()
	if down {
		return nil, simtest.ErrDown
	}
	if denied {
		req = req.Clone(req.Context())
		req.Header.Set("Impersonate-User", "nobody")
	}
	resp, err := l.next.RoundTrip(req)
	if err == nil && req.URL.Query().Get("watch") != "" && strings.Contains(req.URL.Path, "/pods") {
		resp.Body = &heldBody{resp.Body, l, req.Context()}
	}
	return resp, err
}

type heldBody struct {
	io.ReadCloser
	link *link
	ctx  context.Context
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.link.mu.Lock()
	held := b.link.held
	b.link.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-b.ctx.Done():
		}
	}
	return n, err
}

// electee is a process with leader election whose controller reconciles pods and looks up configmaps.
type electee struct {
	*tarn.Cluster
	link   *link
	pods   *tarn.Mirror[*corev1.Pod]
	client *tarn.Client[*corev1.Pod]
	maps   *tarn.Client[*corev1.ConfigMap]
	log    bytes.Buffer
	stop   func() error
}

func newElectee(t *testing.T, srv *apiserver.Server, name string, opts controller.Options[tarn.Key], reconcile func(r *electee) tarn.ReconcileFunc) *electee {
	r := &electee{link: newLink(srv)}
	r.Cluster = connect(t, tarn.WithConfig(r.link.config(srv)), tarn.WithLogger(slog.New(slog.NewTextHandler(&locked{w: &r.log}, nil)).With("replica", name)), tarn.WithLeaderElection("lock", leader.Options{}))
	r.pods = must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
	r.client = r.pods.Client()
	r.maps = must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster)).Client()
	must(tarn.NewController(r.Cluster, "c", reconcile(r), tarn.For(r.pods), tarn.WithControllerOptions(opts)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *electee) leads() bool { return r.Status().Leader.Leading }

func authorized(t *testing.T) *apiserver.Server {
	return apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1, RBAC: true})
}

func TestR09_ALeaderThatCannotReadHandsOverToOneThatCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		did := map[string]int{}
		var mu sync.Mutex
		work := func(name string) func(*electee) tarn.ReconcileFunc {
			return func(*electee) tarn.ReconcileFunc {
				return func(context.Context, tarn.Key) (tarn.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					did[name]++
					return tarn.Result{}, nil
				}
			}
		}
		a := newElectee(t, srv, "a", controller.Options[tarn.Key]{}, work("a"))
		simtest.Advance(time.Minute)
		b := newElectee(t, srv, "b", controller.Options[tarn.Key]{}, work("b"))
		simtest.Advance(time.Minute)
		simtest.Want(t, "leads", []bool{a.leads(), b.leads()}, []bool{true, false})

		a.link.deny("configmaps", true)
		srv.Cut("configmaps")
		simtest.Advance(2 * time.Minute)
		simtest.Want(t, "leads while it may not read", []bool{a.leads(), b.leads()}, []bool{false, true})
		must(srv.Create(pod("shop", "web", "1")))
		simtest.Advance(time.Second)
		simtest.Want(t, "reconciles by the other", did, map[string]int{"b": 1})
		if !strings.Contains(a.log.String(), "giving up the lease") {
			t.Errorf("the log does not say why: %s", &a.log)
		}

		// Neither can do better now, so nothing moves, and it shows.
		b.link.deny("configmaps", true)
		srv.Cut("configmaps")
		simtest.Advance(20 * time.Minute)
		simtest.Want(t, "leads while neither may read", []bool{a.leads(), b.leads()}, []bool{false, true})
		simtest.Want(t, "terms", []uint64{a.Status().Leader.Terms, b.Status().Leader.Terms}, []uint64{1, 1})
		simtest.Want(t, "ailing", b.Status().Leader.Ailing, true)
		a.link.deny("configmaps", false)
		simtest.Advance(2 * time.Minute)
		simtest.Want(t, "leads when the first may read again", []bool{a.leads(), b.leads()}, []bool{true, false})

		// Alone, it works rather than nobody.
		simtest.Want(t, "stop", a.stop(), nil)
		simtest.Advance(time.Minute)
		simtest.Want(t, "leads alone", b.leads(), true)
	})
}

// Both processes would find that the mirrors of the other are live, as long as that does not lead.
func TestR09_AMirrorThatOnlyTheLeaderDeclaresMovesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		must(srv.Create(pod("shop", "web", "1")))
		work := func(r *electee) tarn.ReconcileFunc {
			return func(ctx context.Context, _ tarn.Key) (tarn.Result, error) {
				secrets, err := tarn.MirrorOf[*corev1.Secret](r.Cluster)
				if err == nil {
					context.AfterFunc(ctx, secrets.Close) // at the end of the term
				}
				return tarn.Result{}, err
			}
		}
		a := newElectee(t, srv, "a", controller.Options[tarn.Key]{}, work)
		a.link.deny("secrets", true)
		simtest.Advance(time.Minute)
		b := newElectee(t, srv, "b", controller.Options[tarn.Key]{}, work)
		b.link.deny("secrets", true)
		simtest.Advance(20 * time.Minute)
		simtest.Want(t, "terms", []uint64{a.Status().Leader.Terms, b.Status().Leader.Terms}, []uint64{1, 0})
		simtest.Want(t, "leads", a.leads(), true)
		if code, body := readyz(a.Cluster); code != http.StatusServiceUnavailable || !strings.Contains(body, "cannot list resource") {
			t.Errorf("readyz: %d %s", code, body)
		}
	})
}

func TestR09_TheLeaseExpiresWhileAReconcileIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		must(srv.Create(pod("shop", "web", "1")))
		hang := make(chan struct{})
		defer close(hang)
		var mayWrite func() error
		a := newElectee(t, srv, "a", controller.Options[tarn.Key]{Grace: time.Second}, func(*electee) tarn.ReconcileFunc {
			return func(ctx context.Context, _ tarn.Key) (tarn.Result, error) {
				mayWrite = func() error { return controller.MayWrite(ctx) }
				<-hang
				return tarn.Result{}, nil
			}
		})
		simtest.Advance(time.Minute)
		took := make(chan error, 1)
		newElectee(t, srv, "b", controller.Options[tarn.Key]{}, func(*electee) tarn.ReconcileFunc {
			return func(context.Context, tarn.Key) (tarn.Result, error) {
				took <- mayWrite()
				return tarn.Result{}, nil
			}
		})
		simtest.Advance(time.Minute)
		begin := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- a.stop() }()
		if err := <-took; err == nil {
			t.Error("another process reconciles the key, and the first one may write")
		}
		if d := time.Since(begin); d < 15*time.Second || d > time.Minute { // it renewed until the grace period had ended
			t.Errorf("another process reconciles the key %v after the stop", d)
		}
		if err := <-stopped; err == nil || !strings.Contains(err.Error(), "did not stop") {
			t.Errorf("the error of Run: %v", err)
		}
	})
}

func TestR09_ANewLeaderWaitsForTheWritesOfTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		must(srv.Create(pod("shop", "web", "1")))
		var saw []string
		var mu sync.Mutex
		work := func(name string) func(*electee) tarn.ReconcileFunc {
			return func(r *electee) tarn.ReconcileFunc {
				return func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
					pod, err := r.client.Get(ctx, key)
					if err != nil {
						return tarn.Result{}, err
					}
					mu.Lock()
					saw = append(saw, fmt.Sprintf("%s: app=%s by=%s", name, pod.Labels["app"], pod.Labels["by"]))
					mu.Unlock()
					if pod.Labels["app"] != "go" || pod.Labels["by"] != "" {
						return tarn.Result{}, nil
					}
					_, err = r.client.Patch(ctx, key, wire.MergePatchOf(map[string]any{"metadata": map[string]any{"labels": map[string]any{"by": name}}}))
					return tarn.Result{}, err
				}
			}
		}
		a := newElectee(t, srv, "a", controller.Options[tarn.Key]{}, work("a"))
		simtest.Advance(time.Minute)
		b := newElectee(t, srv, "b", controller.Options[tarn.Key]{}, work("b"))
		simtest.Advance(time.Minute)
		b.link.hold(true)
		changed := pod("shop", "web", "1")
		changed.Labels["app"] = "go"
		must(srv.Update(changed))
		simtest.Advance(10 * time.Second)
		simtest.Want(t, "stop", a.stop(), nil)
		simtest.Advance(10 * time.Second)
		simtest.Want(t, "it leads, and waits", b.leads(), true)
		b.link.hold(false)
		simtest.Advance(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		simtest.Want(t, "reconciles", saw, []string{"a: app=web by=", "a: app=go by=", "a: app=go by=a", "b: app=go by=a"})
	})
}

func TestR11_ALookupInAMirrorWithoutPermissionHoldsOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		l := newLink(srv)
		l.deny("configmaps", true)
		var log bytes.Buffer
		c := connect(t, tarn.WithConfig(l.config(srv)), tarn.WithLogger(slog.New(slog.NewTextHandler(&locked{w: &log}, nil))))
		pods := must(tarn.MirrorOf[*corev1.Pod](c))
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](c)).Client()
		for i := range 5 {
			must(srv.Create(pod("shop", fmt.Sprint("p", i), "1")))
			must(srv.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i)}}))
		}
		var mu sync.Mutex
		done := map[string]bool{}
		ctl := must(tarn.NewController(c, "c", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			if key.Name != "p0" && key.Name != "p4" {
				mu.Lock()
				defer mu.Unlock()
				done[key.Name] = true
				return tarn.Result{}, nil
			}
			if _, err := maps.Get(ctx, key); err != nil {
				return tarn.Result{}, fmt.Errorf("looking up: %w", err)
			}
			if list, err := maps.List(ctx); err != nil || len(list) != 5 {
				return tarn.Result{}, fmt.Errorf("%d maps: %w", len(list), err)
			}
			mu.Lock()
			defer mu.Unlock()
			done[key.Name] = true
			return tarn.Result{}, nil
		}, tarn.For(pods)))
		r := &testCluster{Cluster: c, t: t, srv: srv}
		r.start()
		simtest.Advance(5 * time.Minute)
		mu.Lock()
		simtest.Want(t, "reconciled while one mirror may not be read", len(done), 3)
		mu.Unlock()
		s := ctl.Status()
		if len(s.HeldKeys) != 2 || !strings.Contains(s.HeldKeys[0].Err.Error(), "cannot list resource") || s.Failed != 0 {
			t.Errorf("held: %+v; %d failures", s.HeldKeys, s.Failed)
		}
		if n := s.Stale; n < 2*290 || n > 2*320 {
			t.Errorf("%d attempts of two keys in 5 minutes; want about one a second each", n)
		}
		if code, body := readyz(c); code != http.StatusServiceUnavailable || !strings.Contains(body, "cannot list resource") {
			t.Errorf("readyz: %d %s", code, body)
		}
		if !strings.Contains(log.String(), "a key is held back") {
			t.Errorf("log: %s", &log)
		}
		l.deny("configmaps", false)
		simtest.Advance(time.Minute)
		mu.Lock()
		simtest.Want(t, "reconciled when it may", len(done), 5)
		mu.Unlock()
		simtest.Want(t, "held", len(ctl.Status().HeldKeys), 0)
	})
}

func TestW23_AControllerWithoutPermissionWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		must(srv.Create(pod("shop", "web", "1")))
		l := newLink(srv)
		l.deny("pods", true)
		var log bytes.Buffer
		c := connect(t, tarn.WithConfig(l.config(srv)), tarn.WithLogger(slog.New(slog.NewTextHandler(&locked{w: &log}, nil))))
		n := 0
		ctl := must(tarn.NewController(c, "c", func(context.Context, tarn.Key) (tarn.Result, error) { n++; return tarn.Result{}, nil },
			tarn.For(must(tarn.MirrorOf[*corev1.Pod](c)))))
		r := &testCluster{Cluster: c, t: t, srv: srv}
		r.start()
		simtest.Advance(time.Hour)
		code, body := readyz(c)
		for what, text := range map[string]string{"readyz": body, "the log": log.String(), "the status": ctl.Status().String(), "the console": fmt.Sprint(console.Problems(c.Status()))} {
			if !strings.Contains(strings.ReplaceAll(text, `\`, ""), `cannot list resource "pods"`) {
				t.Errorf("%s does not show the cause: %s", what, text)
			}
		}
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]controller/c failed") {
			t.Errorf("readyz: %d %s", code, body)
		}
		l.deny("pods", false)
		simtest.Advance(time.Minute)
		simtest.Want(t, "reconciles when it may", n, 1)
		code, _ = readyz(c)
		simtest.Want(t, "readyz", code, http.StatusOK)
	})
}

// TestR05 with what a server really answers.
func TestR05_OptimisticLocksAreQuietAndFieldManagersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		must(srv.Create(pod("shop", "lock", "1")))
		must(srv.Create(pod("shop", "owned", "1")))
		var log bytes.Buffer
		c := connect(t, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.NewTextHandler(&locked{w: &log}, nil))))
		pods := must(tarn.MirrorOf[*corev1.Pod](c))
		client := pods.Client()
		config := func(value string) *corev1.Pod {
			p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "owned", Labels: map[string]string{"x": value}}}
			return p
		}
		must(client.Apply(t.Context(), config("theirs"), tarn.FieldManager("them")))
		tries := 0
		ctl := must(tarn.NewController(c, "c", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			if key.Name == "owned" {
				_, err := client.Apply(ctx, config("ours"))
				return tarn.Result{}, err
			}
			if tries++; tries > 3 {
				return tarn.Result{}, nil
			}
			p, err := client.Get(ctx, key)
			if err != nil {
				return tarn.Result{}, err
			}
			p.ResourceVersion = "1"
			_, err = client.Update(ctx, p)
			return tarn.Result{}, err
		}, tarn.For(pods), tarn.WithControllerOptions(controller.Options[tarn.Key]{Attempts: 2})))
		r := &testCluster{Cluster: c, t: t, srv: srv}
		r.start()
		simtest.Advance(time.Minute)
		s := ctl.Status()
		simtest.Want(t, "conflicts, failures, given up", []uint64{s.Conflicts, s.Failed, s.GivenUp}, []uint64{3, 2, 1})
		if strings.Contains(log.String(), "shop/lock") || !strings.Contains(log.String(), "shop/owned") {
			t.Errorf("log: %s", &log)
		}
	})
}

// No process knows that it owns a key for which ShardBy panics, so none works on it, until it is known.
func TestR10_APanicOfShardByCostsThatKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := authorized(t)
		var mu sync.Mutex
		sick, seen := true, map[string]int{}
		var log bytes.Buffer
		c := connect(t, tarn.WithConfig(srv.MemoryConfig()), tarn.WithSharding("group", shard.Options{}), tarn.WithLogger(slog.New(slog.NewTextHandler(&locked{w: &log}, nil))))
		pods := must(tarn.MirrorOf[*corev1.Pod](c))
		ctl := must(tarn.NewController(c, "c", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			seen[key.Name]++
			return tarn.Result{}, nil
		}, tarn.For(pods), tarn.ShardBy("by name", func(key tarn.Key) string {
			mu.Lock()
			defer mu.Unlock()
			if sick && key.Name == "bad" {
				panic("no shard")
			}
			return key.Name
		})))
		must(srv.Create(pod("shop", "a", "1")))
		r := &testCluster{Cluster: c, t: t, srv: srv}
		r.start()
		simtest.Advance(2 * time.Minute)
		for _, name := range []string{"b", "bad", "c", "d"} {
			must(srv.Create(pod("shop", name, "1")))
		}
		simtest.Advance(time.Minute)
		mu.Lock()
		simtest.Want(t, "reconciled", seen, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1})
		sick = false
		mu.Unlock()
		s := ctl.Status()
		if len(s.Failures) != 1 || !strings.Contains(s.Failures[0].Err.Error(), "no shard") {
			t.Errorf("failures: %v", s.Failures)
		}
		if code, body := readyz(c); code != http.StatusOK || !strings.Contains(body, "panic in Queue.Group") {
			t.Errorf("readyz: %d %s", code, body)
		}
		if !strings.Contains(log.String(), "no shard") {
			t.Errorf("log: %s", &log)
		}
		simtest.Advance(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		simtest.Want(t, "the key when its shard is known", seen["bad"], 1)
		simtest.Want(t, "failures after that", len(ctl.Status().Failures), 0)
	})
}
