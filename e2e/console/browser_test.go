package console

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// limit is how long anything may take on a busy machine.
const limit = 2 * time.Minute

// chromium is the context of the browser that all tests share.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	if *serve {
		if err := servePods(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	path := browserPath()
	if path == "" {
		fmt.Println("SKIPPED: no Chromium is installed; see make browser")
		os.Exit(0)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.NoSandbox, // CI runs as root; the browser only opens pages of this process
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	browser, closeBrowser := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		fmt.Printf("%s does not start: %v\n", path, err)
		os.Exit(1)
	}
	chromium = browser
	code := m.Run()
	closeBrowser()
	stop()
	os.Exit(code)
}

func browserPath() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx context.Context
	// allowed are parts of console messages that the test provokes.
	allowed []string
}

// open opens an address in a tab of a width, and closes it when the test ends. The test fails if
// the page writes a warning or an error to the console, violations of the content security policy
// included.
func open(t *testing.T, address string, width int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium)
	p := &tab{T: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	var read sync.WaitGroup
	read.Go(func() { p.read(messages) })
	t.Cleanup(func() {
		if ctx.Err() == nil {
			p.run(chromedp.Evaluate[chromedp.Void](`console.debug("end of test")`))
			read.Wait()
		}
		cancel()
	})
	p.run(chromedp.EmulateViewport(width, 900))
	// A tab in the background has no focus, and its page would not see it.
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	p.run(chromedp.Navigate(address))
	return p
}

func (p *tab) read(messages func(func(chromedp.ConsoleMessage, error) bool)) {
	for m, err := range messages {
		switch {
		case err != nil:
			return
		case m.Text == "end of test":
			return
		case slices.ContainsFunc(p.allowed, func(s string) bool { return strings.Contains(m.String(), s) }):
		case m.IsException(), m.Type == "error", m.Type == "warning":
			p.Errorf("console: %s", m)
		}
	}
}

// run runs an action.
func (p *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression, which may be a promise.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true. chromedp's own Poll needs eval, which the page forbids.
func (p *tab) wait(expression string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`new Promise((done) => {
		const check = () => { let ok = false; try { ok = (`+expression+`); } catch {} ok ? done(true) : setTimeout(check, 20); };
		check();
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v; the page is %s", expression, err, eval[string](p, `location.hash + "\n" + document.body.innerText`))
	}
}

// waitText waits until an element shows a text.
func (p *tab) waitText(selector, text string) {
	p.Helper()
	p.wait(fmt.Sprintf("[...document.querySelectorAll(%q)].some((n) => n.checkVisibility() && n.textContent.includes(%q))", selector, text))
}

// text returns the text of the first element that matches.
func (p *tab) text(selector string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q).textContent", selector))
}

// fill replaces the text of a field.
func (p *tab) fill(selector, text string) {
	p.Helper()
	eval[string](p, fmt.Sprintf("document.querySelector(%q).value = ''", selector))
	p.run(chromedp.SendKeys(selector, text))
}

// goTo changes the view.
func (p *tab) goTo(hash string) {
	p.Helper()
	eval[string](p, fmt.Sprintf("location.hash = %q", hash))
}

// keys presses keys, one after the other.
func (p *tab) keys(keys ...string) {
	p.Helper()
	for _, key := range keys {
		p.run(chromedp.KeyEvent(key))
	}
}

// scheme sets the colour scheme of the system.
func (p *tab) scheme(name string) {
	p.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.Fatal(err)
	}
}
