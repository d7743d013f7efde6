package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
)

// bare starts a cluster with the given mirrors and controllers on a server with 30 config maps.
func bare(t *testing.T, declare func(c *tarn.Cluster), faults ...apiserver.Fault) *lab {
	t.Helper()
	l := &lab{T: t, server: apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", AnyNamespace: true})}
	for _, f := range faults {
		_, err := l.server.Inject(f)
		must(t, err)
	}
	for i := range 30 {
		l.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%02d", i)}})
	}
	cluster, err := tarn.Connect(tarn.WithConfig(l.server.Config()), tarn.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	declare(cluster)
	l.run(cluster)
	l.cluster, l.handler = cluster, cluster.Handler()
	l.serve("127.0.0.1:0")
	return l
}

// through passes all requests to the console through f, which calls next or does not.
func (l *lab) through(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	l.Helper()
	next := l.handler
	l.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, next) })
	l.closeHTTP()
	l.serve("127.0.0.1:0")
}

// reserve serves the console again under its address.
func (l *lab) reserve() {
	l.Helper()
	l.serve(strings.TrimSuffix(strings.TrimPrefix(l.url, "http://"), "/debug/tarn/"))
}

func (l *lab) addPod(name string) {
	l.Helper()
	l.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
}

func TestT03_TheListSurvivesAFailedRequest(t *testing.T) {
	l := newLab(t)
	var broken atomic.Bool
	l.through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if broken.Load() && strings.HasSuffix(r.URL.Path, "/objects") {
			http.Error(w, `{"error":"try again"}`, http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	broken.Store(true)
	p := open(t, l.url+"#/objects?mirror=pods", desktop)
	p.allowed = []string{"503"}
	p.waitText(`.objects [role="alert"]`, "try again")
	broken.Store(false)
	p.waitText(".count", "48 objects")
	p.wait(`document.querySelector("#row-0").checkVisibility()`)
	p.wait(`!document.querySelector('.objects [role="alert"]').checkVisibility()`)

	broken.Store(true)
	l.addPod("another")
	p.waitText(`.objects [role="alert"]`, "try again")
	p.wait(`document.querySelector("#row-0").checkVisibility()`) // the last state stays
	broken.Store(false)
	p.waitText(".count", "49 objects")
}

func TestTheListIsLiveAfterAnObjectWasOpenedDuringARefresh(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/objects?mirror=pods", desktop)
	p.waitText(".count", "48 objects")
	eval[bool](p, `(globalThis.waits = 0, globalThis.plain = setTimeout, globalThis.setTimeout = (f, ms, ...a) => { if (ms >= 1000) waits++; return plain(f, ms, ...a); }, true)`)
	l.churn(50)
	p.wait(`waits > 0`) // the list waits for its next refresh
	p.goTo("#/object?mirror=pods&key=shop/" + l.watched[0].Name)
	p.waitText("pre", "registry.example.com")
	p.goTo("#/objects?mirror=pods")
	p.waitText("h1", "Objects")
	l.addPod("another")
	p.waitText(".count", "49 objects")
	l.addPod("one-more")
	p.waitText(".count", "50 objects")
}

func TestChangesDuringAnotherViewAreSeen(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/objects?mirror=pods", desktop)
	p.waitText(".count", "48 objects")
	p.goTo("#/")
	p.waitText(pods+" .line", "48")
	l.addPod("another")
	p.waitText(pods+" .line", "49")
	p.goTo("#/objects?mirror=pods")
	p.waitText(".count", "49 objects")
}

func TestChangesWhileTheStreamIsCutAreSeen(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/objects?mirror=pods", desktop)
	p.allowed = []string{"ERR_"}
	p.waitText(".count", "48 objects")
	l.closeHTTP()
	p.waitText("#link", "Reconnecting")
	l.addPod("another")
	l.reserve()
	p.waitText("#link", "Live")
	p.waitText(".count", "49 objects")
}

func TestOnlyAWordForGoodIsGreen(t *testing.T) {
	l := newLab(t)
	l.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "down"}, Status: appsv1.DeploymentStatus{
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse}}}})
	l.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "up"}, Status: appsv1.DeploymentStatus{
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}})
	for name, ready := range map[string]corev1.ConditionStatus{"crashes": corev1.ConditionFalse, "works": corev1.ConditionTrue} {
		l.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}})
	}
	l.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "odd"}, Status: corev1.PodStatus{Phase: "Perplexed"}})
	p := open(t, l.url, desktop)
	for _, tt := range []struct{ mirror, name, word, health string }{
		{"deployments.apps", "down", "Unavailable", "error"}, {"deployments.apps", "up", "Available", "ok"},
		{"pods", "crashes", "NotReady", "error"}, {"pods", "works", "Running", "ok"}, {"pods", "odd", "Perplexed", "undefined"},
	} {
		p.goTo("#/objects?mirror=" + tt.mirror + "&search=shop/" + tt.name)
		p.waitText("#row-0 .c-name", tt.name)
		p.waitText("#row-0 .c-status", tt.word)
		if got := eval[string](p, `String(document.querySelector("#row-0 .c-status .word").dataset.health)`); got != tt.health {
			t.Errorf("%s is %s, want %s", tt.word, got, tt.health)
		}
	}
}

func TestExplainContinuesAfterItWasLeftDuringARequest(t *testing.T) {
	l := newLab(t)
	arrived := make(chan struct{}, 1)
	var requests atomic.Int32
	l.through(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/explain") && requests.Add(1) == 1 {
			arrived <- struct{}{}
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	p := open(t, l.url+"#/explain?key="+stuck, desktop)
	<-arrived
	p.waitText("#link", "Live")
	p.goTo("#/")
	p.waitText(pods+" .badge", "live")
	p.goTo("#/explain?key=" + stuck)
	p.waitText(".answer .badge", "backing off")
	seen := requests.Load()
	for requests.Load() < seen+2 { // it is kept up to date, too
		p.wait(`new Promise((done) => setTimeout(() => done(true), 100))`)
	}
}

func TestALinkToAMirrorWithASlashInItsSelector(t *testing.T) {
	const selector = "app.kubernetes.io/name=web"
	l := bare(t, func(c *tarn.Cluster) {
		_, err := tarn.MirrorOf[*corev1.Secret](c, tarn.Matching(selector))
		must(t, err)
	}, apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"})
	p := open(t, l.url, desktop)
	p.waitText(".problem h2", "secrets")
	p.run(chromedp.Click(".problem .subject a"))
	p.wait(`document.activeElement.textContent === "secrets where ` + selector + `"`)
	p.run(chromedp.Click(".lane summary"))
	p.run(chromedp.Click(".lane details a"))
	p.wait(`document.querySelector("#f-mirror").value === "secrets where ` + selector + `"`)
}

func TestATimeOfAnotherDayHasItsDate(t *testing.T) {
	l := bare(t, func(c *tarn.Cluster) {
		maps, err := tarn.MirrorOf[*corev1.ConfigMap](c)
		must(t, err)
		_, err = tarn.NewController(c, "weekly", func(context.Context, tarn.Key) (tarn.Result, error) {
			return tarn.Result{RequeueAfter: 100 * time.Hour}, nil
		}, tarn.For(maps))
		must(t, err)
	})
	p := open(t, l.url+"#/explain?key=shop/web-00", desktop)
	p.waitText(".answer .badge", "delayed")
	if date, why := time.Now().Add(100*time.Hour).Format("2006-01-02"), p.text(".why"); !strings.Contains(why, date) {
		t.Errorf("%q has no date %s", why, date)
	}
}

func TestT04_ManyMirrorsHaveFewElements(t *testing.T) {
	const n = 2000
	l := bare(t, func(c *tarn.Cluster) {
		for i := range n {
			_, err := tarn.MirrorMetadata(t.Context(), c, "configmaps", tarn.Matching(fmt.Sprintf("app=web-%04d", i)))
			must(t, err)
		}
	})
	p := open(t, l.url, desktop)
	p.waitText(".calm", "2,000 mirrors live")
	if lanes, all := eval[int](p, `document.querySelectorAll(".lane").length`), eval[int](p, `document.querySelectorAll("*").length`); lanes > 25 || all > 3000 {
		t.Errorf("%d lanes, %d elements", lanes, all)
	}
	p.waitText("main", "of 2,000")
	name := "configmaps where app=web-1234 (metadata)"
	p.goTo("#/?mirror=" + strings.ReplaceAll(name, " ", "+"))
	p.wait(`document.activeElement.textContent === ` + quote(name))
	p.fill("#mirror-filter", "web-077")
	p.wait(`document.querySelectorAll(".lane").length === 10`)
}

func TestT02_AnOutageOfTheServerIsOneCardAndNotLive(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desktop)
	p.waitText("#link", "Live")
	p.waitText(".problem h2", stuck)
	must(t, l.server.Delete(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout-canary"}}))
	p.waitText(".calm", "Everything is in order")
	l.server.RefuseConnections(true)
	l.server.Cut("")
	p.waitText(".problem h2", "5 mirrors")
	p.wait(`document.querySelectorAll(".problem").length === 1`)
	p.waitText("#link", "Not live")
	p.wait(`document.querySelector("#link").dataset.state === "stale"`)
	p.run(chromedp.Click(".problem .affected a"))
	p.wait(`document.activeElement.closest(".lane").dataset.mirror === document.querySelector(".problem .affected a").textContent`)
	l.server.RefuseConnections(false)
	p.waitText("#link", "Live")
	p.waitText(".calm", "Everything is in order")
}

func TestMostKeysThatFailAreOneErrorWithLinks(t *testing.T) {
	l := bare(t, func(c *tarn.Cluster) {
		maps, err := tarn.MirrorOf[*corev1.ConfigMap](c)
		must(t, err)
		_, err = tarn.NewController(c, "copy", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
			if key.Name == "web-29" {
				return tarn.Result{}, errors.New("another reason")
			}
			return tarn.Result{}, controller.Terminal(fmt.Errorf("create copy of %s: quota exceeded", key))
		}, tarn.For(maps))
		must(t, err)
	})
	p := open(t, l.url, desktop)
	p.waitText(".problem h2", "29 of 30 keys fail")
	p.wait(`document.querySelectorAll(".problem").length === 2`)
	if got := eval[string](p, `document.querySelector(".problem").dataset.health`); got != "error" {
		t.Errorf("29 of 30 keys fail, and the card is a %s", got)
	}
	// The table below has a row for each error as well.
	p.wait(`document.querySelectorAll('[data-controller="copy"] tbody tr').length === 2`)
	p.run(chromedp.Click(".problem .affected a"))
	p.waitText("h1", "shop/web-")
	p.waitText(".answer .badge", "failed")
	p.wait(`document.querySelectorAll("section > .hints > li").length === 2`)
}

func TestT05_AServerBeyondLoopbackAsksForTheTokenOnce(t *testing.T) {
	l := newLab(t)
	var log logged
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := (&console.Server{Listener: listener, Handler: l.cluster.Handler(), Logger: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); serving.Wait() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	p := open(t, "about:blank", desktop)
	p.allowed = []string{"401", "404"} // without a token; and the plain page has no icon
	p.run(chromedp.Navigate("http://localhost:" + port + "/debug/tarn/#/objects?mirror=pods"))
	p.run(chromedp.WaitVisible("#token"))
	_, token, _ := strings.Cut(log.String(), "console-token=")
	p.run(chromedp.SendKeys("#token", strings.TrimSpace(token)+kb.Enter))
	p.waitText(".count", "48 objects")
	p.run(chromedp.Reload())
	p.waitText(".count", "48 objects") // by the cookie
	p.run(chromedp.Navigate("http://localhost:" + port + "/debug/pprof/"))
	p.waitText("body", "goroutine")
	if cookie := eval[string](p, "document.cookie"); cookie != "" {
		t.Errorf("scripts can read the cookie: %s", cookie)
	}
}

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
