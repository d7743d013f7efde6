package clientgo_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// gated is a handler that a test can block. It records its calls and checks that they are a history:
// none comes twice, and each update starts from the last object it received.
type gated struct {
	handler
	t     *testing.T
	gate  chan struct{} // nil: open
	known map[string]string
	calls int
}

func (g *gated) wait() {
	if g.gate != nil {
		<-g.gate
	}
	g.calls++
}

// OnAdd implements cache.ResourceEventHandler.
func (g *gated) OnAdd(obj any, initial bool) {
	g.wait()
	key, text := podLine(obj)
	if was, ok := g.known[key]; ok {
		g.t.Errorf("add %s of %s, which is known as %s", text, key, was)
	}
	g.known[key] = text
	g.handler.OnAdd(obj, initial)
}

// OnUpdate implements cache.ResourceEventHandler.
func (g *gated) OnUpdate(old, new any) {
	g.wait()
	key, text := podLine(new)
	if _, was := podLine(old); g.known[key] != was {
		g.t.Errorf("update of %s from %s, which is known as %q", key, was, g.known[key])
	}
	g.known[key] = text
	g.handler.OnUpdate(old, new)
}

// OnDelete implements cache.ResourceEventHandler.
func (g *gated) OnDelete(obj any) {
	g.wait()
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	key, text := podLine(obj)
	if g.known[key] == "" {
		g.t.Errorf("delete %s of %s, which is not known", text, key)
	}
	delete(g.known, key)
	g.handler.OnDelete(obj)
}

// hold has the handler wait in its next call; the function it returns ends that.
func (g *gated) hold() (release func()) {
	g.gate = make(chan struct{})
	return func() {
		close(g.gate)
		synctest.Wait()
		g.gate = nil
	}
}

// D28: client-go decides which handlers get an update without a new version when it happens, and we when
// the handler is called.
func TestD28_AnUpdateWithoutANewVersionIsFilteredWhenItIsDelivered(t *testing.T) {
	for name, create := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			w.put("a1", false)
			inf := create(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{ResyncPeriod: 10 * time.Second})
			listen(t, inf)
			g := &gated{t: t, known: map[string]string{}}
			if _, err := inf.AddEventHandlerWithResyncPeriod(g, time.Hour); err != nil {
				t.Fatal(err)
			}
			start(t, inf)
			g.take()
			release := g.hold()
			w.put("b1", false) // the call in which it is held
			synctest.Wait()
			w.expire(true) // and a list, with what is held
			<-time.After(15 * time.Second)
			release()
			want := map[string]int{"client-go": 3, "ours": 1}[name]
			if got := g.take(); len(got) != want {
				t.Errorf("%s: called for %q, want %d", name, got, want)
			}
		})
	}
}
