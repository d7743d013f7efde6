package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// testFleet is a fleet with one controller, which creates a config map for each pod, in a bubble.
type testFleet struct {
	*tarn.Fleet
	t    *testing.T
	ctl  *tarn.FleetController
	stop func() error
	// before is called before each reconcile.
	before func(ctx context.Context, key tarn.FleetKey) error

	mu     sync.Mutex // guards all below
	keys   []string   // that were reconciled, in order
	exists []string   // for which the config map existed although the cache lacked it
}

func withFleet(t *testing.T, opts []tarn.ControllerOption, test func(t *testing.T, f *testFleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := &testFleet{Fleet: tarn.NewFleet(), t: t, before: func(context.Context, tarn.FleetKey) error { return nil }}
		opts = append([]tarn.ControllerOption{tarn.WithControllerOptions(controller.Options[object.Key]{Logger: quiet})}, opts...)
		f.ctl = must(tarn.NewFleetController(f.Fleet, "copy", f.join, opts...))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		f.stop = sync.OnceValue(func() error {
			cancel()
			return <-done
		})
		test(t, f)
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

var quiet = slog.New(slog.DiscardHandler)

func (f *testFleet) join(m *tarn.Member) error {
	pods, err := tarn.MirrorOf[*corev1.Pod](m.Cluster)
	if err != nil {
		return err
	}
	maps, err := tarn.MirrorOf[*corev1.ConfigMap](m.Cluster)
	if err != nil {
		return err
	}
	podClient, mapClient := pods.Client(), maps.Client()
	return m.Reconcile(func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
		if err := f.before(ctx, tarn.FleetKey{Cluster: m.Name, Key: key}); err != nil {
			return tarn.Result{}, err
		}
		f.mu.Lock()
		f.keys = append(f.keys, tarn.FleetKey{Cluster: m.Name, Key: key}.String())
		f.mu.Unlock()
		owner, err := podClient.Get(ctx, key)
		if err != nil {
			return tarn.Result{}, tarn.IgnoreNotFound(err)
		}
		if _, err := mapClient.Get(ctx, key); tarn.IgnoreNotFound(err) != nil || err == nil {
			return tarn.Result{}, err
		}
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string]string{"in": m.Name}}
		if err := podClient.SetOwner(config, owner); err != nil {
			return tarn.Result{}, err
		}
		_, err = mapClient.Create(ctx, config)
		if apierrors.IsAlreadyExists(err) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.exists = append(f.exists, tarn.FleetKey{Cluster: m.Name, Key: key}.String())
		}
		return tarn.Result{}, err
	}, tarn.For(pods), tarn.Owns(maps))
}

// add adds a cluster with a server of its own.
func (f *testFleet) add(name string, pods int, opts ...tarn.ConnectOption) *apiserver.Server {
	f.t.Helper()
	srv := apiserver.Start(f.t, apiserver.Options{AnyNamespace: true, Seed: 1})
	for i := range pods {
		must(srv.Create(pod("shop", fmt.Sprint("p", i), "")))
	}
	f.connect(name, srv, opts...)
	return srv
}

// connect adds a cluster that a server has.
func (f *testFleet) connect(name string, srv *apiserver.Server, opts ...tarn.ConnectOption) {
	f.t.Helper()
	c := connect(f.t, append(opts, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(quiet))...)
	if err := f.Add(name, c); err != nil {
		f.t.Fatal(err)
	}
}

func (f *testFleet) weak(name string) weak.Pointer[tarn.Cluster] {
	c, _ := f.Cluster(name)
	return weak.Make(c)
}

// inMemory returns how many of the clusters the garbage collector cannot free.
func inMemory(clusters ...weak.Pointer[tarn.Cluster]) (n int) {
	for range 5 { // what a pool or a finalizer holds takes more than one
		runtime.GC()
		n = 0
		for _, c := range clusters {
			if c.Value() != nil {
				n++
			}
		}
		if n == 0 {
			break
		}
	}
	return n
}

func (f *testFleet) remove(name string) {
	f.t.Helper()
	if err := f.Remove(f.t.Context(), name); err != nil {
		f.t.Error(err)
	}
}

// reconciled returns the distinct keys that were reconciled since the last call.
func (f *testFleet) reconciled() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := slices.Compact(slices.Sorted(slices.Values(f.keys)))
	f.keys = nil
	return keys
}

func (f *testFleet) want(want ...string) {
	f.t.Helper()
	if got := f.reconciled(); !slices.Equal(got, want) {
		f.t.Errorf("reconciled %v, want %v", got, want)
	}
}

func TestAFleetReconcilesTheObjectsOfAllItsClusters(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		eu, us := f.add("eu", 2), f.add("us", 1)
		f.want("eu:shop/p0", "eu:shop/p1", "us:shop/p0")
		must(us.Create(pod("shop", "late", "")))
		f.want("us:shop/late")
		for name, srv := range map[string]*apiserver.Server{"eu": eu, "us": us} {
			obj := must(srv.Get(object.Resource{Version: "v1", Resource: "configmaps"}.GVR(), key("shop", "p0")))
			if in := obj.(*corev1.ConfigMap).Data["in"]; in != name {
				t.Errorf("the config map in %s was created by the reconcile for %s", name, in)
			}
		}
		if st := f.Status(); len(st.Clusters) != 2 || st.Clusters[0].Name != "eu" || !st.Clusters[0].Cluster.Live() || st.Controllers[0].Reconciles == 0 {
			t.Errorf("status is\n%v", st)
		}
	})
}

// The one worker is busy while a cluster is added, and another changes meanwhile.
func TestAChangeOvertakesTheObjectsOfAClusterThatWasAdded(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		us := f.add("us", 0)
		synctest.Wait()
		busy, release := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() { close(busy); <-release })
		f.before = func(context.Context, tarn.FleetKey) error { first(); return nil }
		must(us.Create(pod("shop", "first", "")))
		<-busy
		f.add("eu", 3)
		synctest.Wait()
		must(us.Create(pod("shop", "second", "")))
		synctest.Wait()
		close(release)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.keys[1] != "us:shop/second" && f.keys[2] != "us:shop/second" { // the other is us:shop/first, of the config map
			t.Errorf("reconciled %v; the change in us should be first or second after the busy reconcile", f.keys)
		}
	})
}

// The one worker is busy while a cluster with many objects and one with few are added.
func TestClustersTakeTurns(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		us := f.add("us", 0)
		synctest.Wait()
		busy, release := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() { close(busy); <-release })
		f.before = func(context.Context, tarn.FleetKey) error { first(); return nil }
		must(us.Create(pod("shop", "first", "")))
		<-busy
		f.add("large", 100)
		synctest.Wait()
		f.add("small", 2)
		synctest.Wait()
		close(release)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, key := range []string{"small:shop/p0", "small:shop/p1"} {
			if i := slices.Index(f.keys, key); i < 0 || i > 20 {
				t.Errorf("%s was reconciled after %d others", key, i)
			}
		}
	})
}

func TestAClusterThatDoesNotAnswerDelaysNoOther(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		down := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		recover := must(down.Inject(apiserver.Fault{Kind: apiserver.Refuse}))
		must(down.Create(pod("shop", "p0", "")))
		f.connect("down", down)
		f.add("up", 1)
		f.want("up:shop/p0")
		<-time.After(10 * time.Minute) // longer than SyncTimeout
		if st := f.Status().Clusters[0]; st.Cluster.Synced() || st.Err != nil {
			t.Errorf("synced %v, failed with %v", st.Cluster.Synced(), st.Err)
		}
		recover()
		<-time.After(2 * time.Minute)
		f.want("down:shop/p0")
	})
}

func TestRemovingAClusterCancelsItsReconcilesAndDropsItsKeys(t *testing.T) {
	withFleet(t, []tarn.ControllerOption{tarn.Workers(2)}, func(t *testing.T, f *testFleet) {
		var cancelled, started int
		f.before = func(ctx context.Context, key tarn.FleetKey) error {
			if key.Cluster == "eu" {
				f.mu.Lock()
				started++
				f.mu.Unlock()
				<-ctx.Done()
				f.mu.Lock()
				cancelled++
				f.mu.Unlock()
			}
			return ctx.Err()
		}
		eu := f.add("eu", 20)
		synctest.Wait()
		us := f.add("us", 1)
		began := time.Now()
		f.remove("eu")
		f.want("us:shop/p0")
		if started != 2 || cancelled != 2 || time.Since(began) > 0 {
			t.Errorf("%d reconciles started and %d were cancelled, want 2 of each; Remove took %v", started, cancelled, time.Since(began))
		}
		<-time.After(time.Second) // the cancelled reconciles' keys come up again, and are dropped
		st := f.ctl.Status()
		if st.Failed != 0 || len(st.Failures) != 0 || st.Queue.Waiting != 0 || st.Queue.Delayed != 0 {
			t.Errorf("after Remove: %+v", st)
		}
		if eu.Watches("pods") != 0 {
			t.Error("the removed cluster still watches pods")
		}
		// The name is free again.
		f.before = func(context.Context, tarn.FleetKey) error { return nil }
		f.connect("eu", eu)
		must(us.Create(pod("shop", "p1", "")))
		if got := f.reconciled(); len(got) != 21 {
			t.Errorf("reconciled %d keys after the cluster was added again, want 21: %v", len(got), got)
		}
	})
}

// A removal from a reconcile of the same cluster returns, because it cancels that reconcile.
func TestAReconcileMayRemoveItsOwnCluster(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		f.before = func(ctx context.Context, key tarn.FleetKey) error { return f.Remove(ctx, key.Cluster) }
		f.add("eu", 1)
		synctest.Wait()
		if _, ok := f.Cluster("eu"); ok {
			t.Error("the cluster was not removed")
		}
	})
}

func TestAFleetHasTheConsolesOfItsClusters(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		h := f.Handler()
		f.add("eu", 1)
		f.add("us/1 <b>", 2)
		synctest.Wait()
		const other = "us%2F1%20%3Cb%3E/"
		if code, body := consoleGet(h, ""); code != 200 || !strings.Contains(body, `<a href="./eu/">eu</a>`) || !strings.Contains(body, other+`">us/1 &lt;b&gt;</a>`) || !strings.Contains(body, "copy: working") {
			t.Errorf("%d %s", code, body)
		}
		for path, want := range map[string]string{
			"eu/": `<script src="assets/theme.js">`, "eu/assets/app.js": "import", other + "status": `"name":"pods"`, other + "objects?mirror=pods": `"total":2`, "eu/objects?mirror=pods": `"total":1`,
		} {
			if code, body := consoleGet(h, path); code != 200 || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		far := httptest.NewRequest("GET", "http://localhost:8080/debug/tarn/", nil)
		far.RemoteAddr = "10.0.0.1:1"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, far)
		if code, _ := consoleGet(h, "no/"); code != 404 || w.Code != 403 {
			t.Errorf("%d for a cluster that is not there, %d for another machine", code, w.Code)
		}
		f.remove("eu")
		if code, _ := consoleGet(h, "eu/"); code != 404 {
			t.Errorf("%d for a cluster that was removed", code)
		}
	})
}

func TestTheMetricsOfAFleetHaveTheCluster(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		scrape := func() string {
			w := httptest.NewRecorder()
			f.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return w.Body.String()
		}
		f.add("eu", 1)
		f.add("us", 1)
		f.want("eu:shop/p0", "us:shop/p0")
		text := scrape()
		for _, series := range []string{
			`controller_runtime_reconcile_total{cluster="eu",controller="copy",result="success"}`,
			`workqueue_adds_total{cluster="",controller="copy",name="copy"}`,
		} {
			if !strings.Contains(text, series) {
				t.Errorf("no %s in\n%s", series, text)
			}
		}
		f.remove("eu")
		if text := scrape(); strings.Contains(text, `"eu"`) || !strings.Contains(text, `cluster="us"`) {
			t.Errorf("after eu was removed:\n%s", text)
		}
	})
}

func TestAFleetRefusesWhatItCannotRun(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		srv := f.add("eu", 0)
		fresh := func() *tarn.Cluster {
			return connect(t, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(quiet))
		}
		eu, _ := f.Cluster("eu")
		synctest.Wait()
		wants := func(err error, text string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("error is %v, want one with %q", err, text)
			}
		}
		wants(f.Add("eu", fresh()), "has a cluster of that name")
		wants(f.Add("", fresh()), "needs a name")
		wants(f.Add("us", eu), "Run was called before")
		wants(f.Remove(t.Context(), "us"), "no such cluster")
		wants(f.Run(t.Context()), "called before")
		_, err := tarn.NewFleetController(f.Fleet, "late", f.join)
		wants(err, "before its clusters")

		other, nop := tarn.NewFleet(), func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }
		every := tarn.From(controller.Every(time.Hour, func(func(object.Key)) {}))
		_, err = tarn.NewFleetController(other, "c", f.join, every)
		wants(err, "options of Member.Reconcile")
		var try func(m *tarn.Member) error
		must(tarn.NewFleetController(other, "c", func(m *tarn.Member) error { return try(m) }))
		try = func(m *tarn.Member) error { return m.Reconcile(nop) }
		wants(other.Add("eu", fresh()), "no sources")
		try = func(m *tarn.Member) error { return m.Reconcile(nop, every, tarn.Workers(2)) }
		wants(other.Add("eu", fresh()), "options of NewFleetController")
		try = func(m *tarn.Member) error { return errors.Join(m.Reconcile(nop, every), m.Reconcile(nop, every)) }
		wants(other.Add("eu", fresh()), "called before")
		if n := len(other.Status().Clusters); n != 0 {
			t.Errorf("%d clusters after failed calls of Add", n)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		wants(f.Add("us", fresh()), "Run has ended")
	})
}
