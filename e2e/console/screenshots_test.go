package console

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/chromedp/chromedp"

	"github.com/tarnproject/tarn/apiserver"
)

var screenshots = flag.String("screenshots", "", "write the pictures of the documentation to this folder")

func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("written with -screenshots ../../docs/images")
	}
	must(t, os.MkdirAll(*screenshots, 0o755))
	l := newLab(t, apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"})
	pod := l.watched[5]
	l.watched = l.watched[:5]
	l.churn(200)
	p := open(t, l.url, desktop)
	p.waitText(".problem h2", "secrets")
	p.wait(`document.querySelector(".tile .spark-line").getAttribute("d").split("L").length > 25`)
	p.run(chromedp.EmulateViewport(desktop, 1240))
	p.save("pipeline")
	p.run(chromedp.EmulateViewport(desktop, 900))
	p.goTo("#/objects?mirror=pods")
	p.waitText(".count", "48 objects")
	p.save("objects")
	p.goTo("#/object?mirror=pods&key=shop/" + pod.Name)
	p.waitText("pre", "web:1.41.3")
	l.update(pod, func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = "registry.example.com/shop/web:1.42.0"
		p.Labels = map[string]string{"app": "web", "track": "stable"}
	})
	p.waitText(".diff ins", "web:1.42.0")
	p.save("object")
	p.goTo("#/explain?key=" + stuck)
	p.waitText(".answer .badge", "backing off")
	p.save("explain")
}

// save writes the window in both schemes.
func (p *tab) save(name string) {
	p.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		must(p.T, err)
		must(p.T, os.WriteFile(filepath.Join(*screenshots, "console-"+name+"-"+scheme+".png"), png, 0o644))
	}
}
