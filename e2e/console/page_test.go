package console

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tarnproject/tarn/apiserver"
)

const desktop, phone = 1280, 360

// pods is the lane of the mirror of pods.
const pods = `[data-mirror="pods"]`

func TestNumbersMoveWhileObjectsChange(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desktop)
	p.waitText("#link", "Live")
	p.waitText(pods+" .badge", "live")
	p.waitText(pods+" .line", "48")
	l.churn(50)
	p.wait(`Number(document.querySelector('` + pods + ` .flow b').textContent) > 0`)
	before := p.text(".tile .big")
	p.wait(`document.querySelector(".tile .big").textContent !== ` + quote(before))
	p.wait(`document.querySelector(".tile .spark-line").getAttribute("d").split("L").length > 2`)
	l.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "another"}})
	p.waitText(pods+" .line", "49")
}

func TestAnUnhealthyMirrorShowsItsCause(t *testing.T) {
	l := newLab(t, apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"})
	p := open(t, l.url, desktop)
	p.waitText(".problem h2", "secrets")
	p.waitText(".problem .code", "rules:")
	p.waitText(`[data-mirror="secrets"] .cause`, "forbidden")
	p.waitText("#announce", "secrets")
	p.run(chromedp.Click(".problem .subject a"))
	p.wait(`document.activeElement.textContent === "secrets"`)
	l.server.Clear()
	p.waitText(`[data-mirror="secrets"] .badge`, "live")
	p.waitText(".problem h2", stuck)
	must(t, l.server.Delete(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout-canary"}}))
	p.waitText("#announce", "resolved")
	p.waitText(".calm", "Everything is in order")
}

func TestSearchAndOpenAnObject(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/objects?mirror=pods", desktop)
	p.allowed = []string{"400"} // half of a selector is not one
	p.waitText(".count", "48 objects")
	p.fill("#f-search", "checkout-canary")
	p.waitText(".count", "6 match")
	p.wait(`location.hash.includes("search=checkout-canary")`)
	p.goTo("#/objects?mirror=pods")
	p.waitText(".count", "48 objects")
	p.fill("#f-labels", "app in (www, cart)")
	p.waitText(".count", "12 match")
	p.goTo("#/objects?mirror=pods")
	p.waitText(".count", "48 objects")
	p.fill("#f-namespace", "blog")
	p.waitText(".count", "18 match")
	p.goTo("#/objects?mirror=pods&index=node&value=node-2")
	p.waitText(".count", "16 match")
	p.goTo("#/objects?mirror=pods&search=shop/web-")
	p.waitText(".count", "6 match")
	p.run(chromedp.Click("#row-0 .c-age"))
	p.waitText("h1", l.watched[0].Namespace+"/"+l.watched[0].Name)
	p.waitText("pre", "registry.example.com/shop/web:1.41.3")
	p.waitText(".tree", "shop/web-7f9c")
	p.run(chromedp.NavigateBack())
	p.waitText(".count", "6 match")
	if hash := eval[string](p, "location.hash"); !strings.Contains(hash, "search=shop") {
		t.Errorf("back leads to %s", hash)
	}
}

func TestAWrongSelectorIsExplained(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url+"#/objects?mirror=pods&labels=app%3D(", desktop)
	p.allowed = []string{"400"}
	p.waitText(`.objects [role="alert"]`, "label selector")
	p.goTo("#/object?mirror=pods&key=shop/absent")
	p.allowed = append(p.allowed, "404")
	p.waitText(`.view [role="alert"]`, "shop/absent")
}

func TestKeyboardOnly(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desktop)
	p.waitText(pods+" .badge", "live")
	p.keys(kb.Tab)
	p.wait(`document.activeElement.id === "skip"`)
	p.keys(kb.Enter)
	p.wait(`document.activeElement.id === "main"`)
	p.keys("/")
	p.wait(`document.activeElement.id === "f-search"`)
	p.keys("w", "e", "b")
	p.waitText(".count", "6 match")
	p.keys(kb.Enter)
	p.wait(`document.activeElement.role === "grid"`)
	p.keys(kb.ArrowDown, kb.ArrowDown, kb.ArrowUp)
	p.wait(`document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).getAttribute("aria-rowindex") === "3"`)
	name := p.text(`[aria-selected="true"] a`)
	p.keys(kb.Enter)
	p.waitText("h1", name)
	p.keys(kb.Escape)
	p.waitText("h1", "Objects")
	p.wait(`document.activeElement.tagName === "H1"`)
}

func TestEveryControlIsReachedByTab(t *testing.T) {
	l := newLab(t)
	for _, view := range []string{"#/", "#/objects?mirror=pods", "#/explain"} {
		p := open(t, l.url+view, desktop)
		p.waitText("#link", "Live")
		p.wait(`document.querySelectorAll("main a, main button, main input, main summary").length > 0`)
		eval[bool](p, `(globalThis.reached = new Set(), document.addEventListener("focusin", (e) => reached.add(e.target)), true)`)
		n := eval[int](p, `(globalThis.wanted = [...document.querySelectorAll("a, button, input, select, summary")].filter((n) => n.checkVisibility() && !n.disabled && n.tabIndex >= 0)).length`)
		for range n + 20 { // and the scrolling regions between them
			p.keys(kb.Tab)
		}
		if missed := eval[[]string](p, `wanted.filter((n) => !reached.has(n)).map((n) => n.outerHTML)`); len(missed) > 0 {
			t.Errorf("%s: not reached: %s", view, missed)
		}
	}
}

func TestDarkMode(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desktop)
	background := `getComputedStyle(document.body).backgroundColor`
	p.scheme("light")
	light := eval[string](p, background)
	p.scheme("dark")
	p.wait(background + " !== " + quote(light))
	p.waitText("#theme", "Light")
	p.run(chromedp.Click("#theme")) // the choice wins over the system
	p.wait(background + " === " + quote(light))
	p.run(chromedp.Reload())
	p.wait(background + " === " + quote(light))
	eval[chromedp.Void](p, `localStorage.clear()`)
}

func TestAPhoneNeedsNoHorizontalScrolling(t *testing.T) {
	l := newLab(t, apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"})
	p := open(t, l.url, phone)
	p.waitText(".problem h2", "secrets")
	p.waitText(`[data-controller="rollout"]`, stuck)
	eval[bool](p, `document.querySelectorAll("details").forEach((d) => (d.open = true)), true`)
	p.waitText("details", "Lists and watches")
	check := func(view string) {
		t.Helper()
		if w := eval[int](p, "document.documentElement.scrollWidth"); w != phone {
			t.Errorf("%s is %d pixels wide", view, w)
		}
	}
	check("pipeline")
	p.goTo("#/objects?mirror=pods")
	p.waitText(".count", "48 objects")
	check("objects")
	p.goTo("#/object?mirror=pods&key=shop/" + l.watched[0].Name)
	p.waitText("pre", "registry.example.com")
	check("object")
}

func quote(s string) string { return `"` + s + `"` }
