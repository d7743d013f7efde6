package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tarnproject/tarn/console"
)

func TestADifferenceOfTwoVersions(t *testing.T) {
	l := newLab(t)
	pod := l.watched[0]
	p := open(t, l.url+"#/object?mirror=pods&key=shop/"+pod.Name, desktop)
	p.waitText("pre", "web:1.41.3")
	l.update(pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry.example.com/shop/web:1.42.0" })
	p.waitText(".diff del", "web:1.41.3")
	p.waitText(".diff ins", "web:1.42.0")
	p.waitText("pre", "web:1.42.0")
}

func TestSecretsAreMasked(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/object?mirror=secrets&key=shop/web-tls", desktop)
	p.waitText("pre", "tls.key")
	if html := eval[string](p, "document.documentElement.outerHTML"); strings.Contains(html, "c2VjcmV0") {
		t.Error("the page shows the data of a secret")
	}
}

func TestExplainAStuckKey(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/explain", desktop)
	p.waitText(".hints", stuck)
	p.run(chromedp.Click(".hints a"))
	p.waitText("h1", stuck)
	p.waitText(".answer .badge", "backing off")
	p.waitText(".why", "admission webhook")
	p.fill("#e-key", "shop/absent"+kb.Enter)
	p.waitText("h1", "shop/absent")
	p.waitText(".why", "nothing to do")
	p.run(chromedp.NavigateBack())
	p.waitText("h1", stuck)
}

func TestTheAdminNeedsAToken(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/explain?controller=rollout&key="+stuck, desktop)
	p.allowed = []string{"401", "403"}
	p.waitText(".answer .badge", "backing off")
	p.run(chromedp.Click(".answer .admin button"))
	p.run(chromedp.SendKeys("#token", "wrong"+kb.Enter))
	p.waitText(`dialog [role="alert"]`, "token")
	p.run(chromedp.SendKeys("#token", adminToken+kb.Enter))
	p.waitText(".answer .said", "Done")
	p.goTo("#/")
	p.run(chromedp.Click(`[data-controller="rollout"] .admin button`))
	p.waitText(`[data-controller="rollout"] .badge`, "paused")
	p.run(chromedp.Click(`[data-controller="rollout"] .admin button`))
	p.waitText(`[data-controller="rollout"] .badge`, "working")
	stored := eval[string](p, `JSON.stringify([{...localStorage}, {...sessionStorage}, location.href, document.cookie, document.documentElement.outerHTML])`)
	if strings.Contains(stored, adminToken) {
		t.Error("the page stores the token")
	}
}

func TestAConsoleWithATokenAsksForIt(t *testing.T) {
	l := newLab(t)
	l.closeHTTP()
	l.handler = http.StripPrefix("/debug/tarn", console.Handler(l.cluster, console.HandlerOptions{Guard: console.Guard{Token: "read-only"}}))
	l.serve("127.0.0.1:0")
	p := open(t, "about:blank", desktop)
	p.allowed = []string{"401"}
	p.run(chromedp.Navigate(l.url + "#/objects?mirror=pods"))
	p.run(chromedp.SendKeys("#token", "wrong"+kb.Enter))
	p.waitText(`dialog [role="alert"]`, "token")
	p.run(chromedp.SendKeys("#token", "read-only"+kb.Enter))
	p.waitText("#link", "Live")
	p.waitText(".count", "48 objects")
}

func TestALongListHasFewElements(t *testing.T) {
	const n = 3000
	l := newLab(t)
	for i := range n {
		l.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "blog", Name: fmt.Sprintf("post-%04d", i)}})
	}
	p := open(t, l.url+"#/objects?mirror=configmaps&namespace=blog", desktop)
	p.waitText(".count", "3,000 match")
	p.run(chromedp.Focus(".grid"))
	p.keys(kb.End)
	p.waitText(`[aria-selected="true"]`, "post-2999")
	p.keys(kb.Home)
	p.waitText(`[aria-selected="true"]`, "post-0000")
	if rows := eval[int](p, `document.querySelectorAll(".rows .row").length`); rows > 40 {
		t.Errorf("%d rows exist", rows)
	}
}

func TestAHiddenTabClosesTheStream(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desktop)
	p.waitText("#link", "Live")
	hide := func(hidden bool) {
		eval[bool](p, fmt.Sprintf(`Object.defineProperty(document, "hidden", { value: %t, configurable: true }), document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	p.waitText("#link", "Paused")
	hide(false)
	p.waitText("#link", "Live")
}

func TestTheStreamReconnects(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desktop)
	p.allowed = []string{"ERR_"}
	p.waitText("#link", "Live")
	l.closeHTTP()
	p.waitText("#link", "Reconnecting")
	l.serve(strings.TrimSuffix(strings.TrimPrefix(l.url, "http://"), "/debug/tarn/"))
	p.waitText("#link", "Live")
}
