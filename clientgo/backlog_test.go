package clientgo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// gated is a handler that can be held up. It keeps a journal, and checks that what it is
// told makes a history: nothing comes twice, and each update goes on from what it saw.
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

func folding(t *testing.T, w *world) (cache.SharedIndexInformer, *gated) {
	inf := clientgo.Behaviour{FoldBacklog: true}.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{})
	g := &gated{t: t, known: map[string]string{}}
	var err error
	if g.reg, err = inf.AddEventHandler(g); err != nil {
		t.Fatal(err)
	}
	return inf, g
}

func TestH03_AFoldedBacklogTellsTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(true)
		for _, name := range []string{"changed1", "gone1", "reborn1", "last1"} {
			w.put(name, false)
		}
		inf, g := folding(t, w)
		start(t, inf)
		g.take()
		release := g.hold()
		w.put("zzz1", false) // the call in which it is held
		synctest.Wait()
		for range 3 {
			w.put("changed1", false)
			w.put("new1", false)
			w.put("new2", false)
		}
		w.delete("new2")
		w.put("gone1", false)
		w.delete("gone1")
		for range 3 {
			w.put("reborn1", false)
			w.delete("reborn1")
			w.put("reborn1", false)
		}
		w.put("last1", false)
		w.delete("last1")
		w.put("last1", false)
		w.delete("last1")
		synctest.Wait()
		release()
		var got []string
		for _, line := range g.take() {
			got = append(got, strings.Join(strings.Fields(line)[:2], " "))
		}
		want := []string{"ns1/changed1: update", "ns1/gone1: delete", "ns1/last1: delete", "ns1/new1: add", "ns1/reborn1: delete", "ns1/reborn1: add", "ns1/zzz1: add"}
		if !slices.Equal(got, want) {
			t.Errorf("told %q\nwant %q", got, want)
		}
		w.put("changed1", false)
		w.put("changed1", false)
		synctest.Wait()
		if got := g.take(); len(got) == 0 || !strings.Contains(got[len(got)-1], fmt.Sprint("@", w.version)) {
			t.Errorf("afterwards it is told %q", got)
		}
	})
}

// An object that fell out of a selection and came back has its old UID.
func TestH03_WhatWasOutOfSightIsAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(true)
		w.put("a1", false)
		inf, g := folding(t, w)
		start(t, inf)
		g.take()
		release := g.hold()
		w.put("zzz1", false) // the call in which it is held
		synctest.Wait()
		w.locked(func() {
			pod := w.pods["a1"]
			w.deleteLocked("a1")
			w.version++
			w.pods["a1"] = pod.DeepCopy()
			w.pods["a1"].ResourceVersion = strconv.Itoa(w.version)
			w.pods["a1"].Spec.NodeName = "back"
			w.tell(watch.Event{Type: watch.Added, Object: w.pods["a1"]})
		})
		synctest.Wait()
		g.known["ns1/a1"] = uidOf1At13 // an update is from the last state before it was gone
		release()
		want := []string{"ns1/a1: update " + uidOf1At13 + " to 00000001-2222-4333-8444-555555555555@14 on back"}
		if got := g.take(); len(got) != 2 || got[0] != want[0] {
			t.Errorf("told %q\nwant %q", got, want)
		}
	})
}

const uidOf1At13 = "00000001-2222-4333-8444-555555555555@13 on node-2"

// H02: whatever happens, a handler that is held up has a backlog of two notes for each
// object at most, and knows in the end what the store holds.
func TestH02_AFoldedBacklogIsBoundedByObjects(t *testing.T) {
	for seed := range uint64(runs()) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 13))
			w := newWorld(rnd.IntN(2) == 0)
			inf, g := folding(t, w)
			start(t, inf)
			const names = 5
			for range 4 {
				release := g.hold()
				w.put("held-0", false)
				synctest.Wait() // it has taken what there was
				before := g.calls
				for range 20 + rnd.IntN(200) {
					name := fmt.Sprintf("pod-%d", rnd.IntN(names))
					switch n := rnd.IntN(40); {
					case n == 0:
						w.forget(true)
						<-time.After(time.Minute)
					case n < 14 && w.pods[name] != nil:
						w.delete(name)
					default:
						w.put(name, n < 20)
					}
					if rnd.IntN(3) == 0 {
						synctest.Wait()
					}
				}
				synctest.Wait()
				release()
				if told := g.calls - before; told > 1+2*(names+1) {
					t.Errorf("seed %d: it was told %d times of %d objects", seed, told, names+1)
				}
				state := map[string]string{}
				for _, obj := range inf.GetStore().List() {
					key, text := podLine(obj)
					state[key] = text
				}
				if fmt.Sprint(state) != fmt.Sprint(g.known) {
					t.Errorf("seed %d: it knows %v\nheld is %v", seed, g.known, state)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}
