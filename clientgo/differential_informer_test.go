package clientgo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

type newInformer func(cache.ListerWatcher, runtime.Object, cache.SharedIndexInformerOptions) cache.SharedIndexInformer

// subject is an informer, of client-go's or of ours, with handlers that record their calls.
type subject struct {
	server   *podServer
	inf      cache.SharedIndexInformer
	handlers []*handler
	errs     recording
}

type handler struct {
	recording
	reg cache.ResourceEventHandlerRegistration
}

func podLine(obj any) (key, text string) {
	p := obj.(*corev1.Pod)
	return p.Namespace + "/" + p.Name, fmt.Sprintf("%s@%s on %s", p.UID, p.ResourceVersion, p.Spec.NodeName)
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handler) OnAdd(obj any, initial bool) {
	key, text := podLine(obj)
	h.add(key, "add %s initial=%v", text, initial)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *handler) OnUpdate(old, new any) {
	key, text := podLine(new)
	_, was := podLine(old)
	h.add(key, "update %s to %s", was, text)
}

// OnDelete implements cache.ResourceEventHandler.
func (h *handler) OnDelete(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		_, text := podLine(t.Obj)
		h.add(t.Key, "vanished %s", text)
		return
	}
	key, text := podLine(obj)
	h.add(key, "delete %s", text)
}

// byNode indexes pods by their node; those of node-0 are nowhere.
func byNode(obj any) ([]string, error) {
	if n := obj.(*corev1.Pod).Spec.NodeName; n != "node-0" {
		return []string{n, "any"}, nil
	}
	return nil, nil
}

// tooOld are the versions in an error: the two may resume at different ones.
var tooOld = regexp.MustCompile(`: \d+ \(\d+\)`)

// state is all that can be read of a subject.
func (s *subject) state() map[string]any {
	st := map[string]any{
		"synced":  s.inf.HasSynced(),
		"stopped": s.inf.IsStopped(),
		"last":    s.inf.LastSyncResourceVersion(),
		"store":   s.inf.GetStore().LastStoreSyncResourceVersion(),
		"errors":  s.errs.take(),
	}
	var held []string
	for _, obj := range s.inf.GetStore().List() {
		key, text := podLine(obj)
		held = append(held, key+": "+text)
	}
	slices.Sort(held)
	st["held"] = held
	for name := range s.inf.GetIndexer().GetIndexers() {
		for _, value := range s.inf.GetIndexer().ListIndexFuncValues(name) {
			keys, err := s.inf.GetIndexer().IndexKeys(name, value)
			st["index "+name+"="+value] = fmt.Sprint(keys, err)
		}
	}
	for i, h := range s.handlers {
		if h != nil {
			st[fmt.Sprint("handler ", i)] = h.take()
			st[fmt.Sprint("handler synced ", i)] = h.reg.HasSynced()
		}
	}
	return st
}

// scenario drives both subjects with the same random steps and compares them after each.
type scenario struct {
	t        *testing.T
	rnd      *rand.Rand
	resync   bool
	servers  [2]*podServer
	subjects [2]*subject
	trace    []string
}

func (sc *scenario) each(f func(s *subject)) {
	for _, s := range sc.subjects {
		f(s)
	}
}

func (sc *scenario) compare(step string) {
	sc.t.Helper()
	sc.trace = append(sc.trace, step)
	synctest.Wait()
	if diff := cmp.Diff(sc.subjects[0].state(), sc.subjects[1].state()); diff != "" {
		sc.t.Fatalf("after %q (-client-go +ours):\n%s", sc.trace, diff)
	}
}

func (sc *scenario) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// step makes one random step and returns what it was.
func (sc *scenario) step() string {
	name := fmt.Sprintf("pod-%d", sc.rnd.IntN(8))
	servers := func(f func(*podServer)) {
		for _, w := range sc.servers {
			f(w)
		}
	}
	switch n := sc.rnd.IntN(20); {
	case n < 8:
		recreated := sc.rnd.IntN(4) == 0
		servers(func(w *podServer) { w.put(name, recreated) })
		return fmt.Sprint("put ", name, " recreated=", recreated)
	case n < 11:
		names := sc.servers[0].names()
		if len(names) == 0 {
			return "nothing to delete"
		}
		name := names[sc.rnd.IntN(len(names))]
		servers(func(w *podServer) { w.delete(name) })
		return "delete " + name
	case n < 12:
		servers(func(w *podServer) { w.Bookmark() })
		return "bookmark"
	case n < 13:
		sc.wait(2 * time.Second) // or the watch would be a very short one
		servers((*podServer).cut)
		return "cut"
	case n < 14 && !sc.resync:
		notify, fail := sc.rnd.IntN(2) == 0, sc.rnd.IntN(2)
		sc.wait(2 * time.Second)
		servers(func(w *podServer) {
			w.locked(func() {
				w.listErrs = fail
				w.expire(notify)
				w.put(name, true)
				for i, name := range w.names() {
					if i%3 == 0 {
						w.delete(name)
					}
				}
				w.Compact()
			})
		})
		sc.wait(70 * time.Second) // the longest back-off there is
		return fmt.Sprint("expire notify=", notify, " fail=", fail)
	case n < 15:
		period := time.Duration(sc.rnd.IntN(3)) * 10 * time.Second
		sc.each(func(s *subject) {
			h := &handler{}
			var err error
			if h.reg, err = s.inf.AddEventHandlerWithResyncPeriod(h, period); err != nil {
				sc.t.Fatal(err)
			}
			s.handlers = append(s.handlers, h)
		})
		return fmt.Sprint("add a handler, resync ", period)
	case n < 16:
		i := sc.rnd.IntN(len(sc.subjects[0].handlers))
		sc.each(func(s *subject) {
			if s.handlers[i] == nil {
				return
			}
			if err := s.inf.RemoveEventHandler(s.handlers[i].reg); err != nil {
				sc.t.Fatal(err)
			}
			s.handlers[i] = nil
		})
		return fmt.Sprint("remove handler ", i)
	case n < 17:
		index := fmt.Sprint("late ", sc.rnd.IntN(3))
		var errs []string
		sc.each(func(s *subject) { errs = append(errs, fmt.Sprint(s.inf.AddIndexers(cache.Indexers{index: byNode}))) })
		if errs[0] != errs[1] {
			sc.t.Fatalf("AddIndexers: client-go %s, ours %s", errs[0], errs[1])
		}
		return "index " + index
	case n < 18:
		return sc.program(name)
	case n < 19:
		burst := []string{}
		for range 6 {
			burst = append(burst, fmt.Sprintf("pod-%d", sc.rnd.IntN(8)))
		}
		servers(func(w *podServer) {
			w.locked(func() {
				for _, name := range burst {
					if w.version()%4 == 0 && w.has(name) {
						w.delete(name)
					} else {
						w.put(name, false)
					}
				}
			})
		})
		return fmt.Sprint("burst ", burst)
	default:
		if sc.resync {
			sc.wait(11 * time.Second)
		}
		return "time passes"
	}
}

// program has the program itself write to the store.
func (sc *scenario) program(name string) string {
	own := &corev1.Pod{}
	own.Name, own.Namespace, own.ResourceVersion, own.UID = name, "ns"+name[len(name)-1:], "7", "by the program"
	how := []string{"update", "remove", "replace"}[sc.rnd.IntN(3)]
	sc.each(func(s *subject) {
		store := s.inf.GetStore()
		err := store.Update(own.DeepCopy())
		switch how {
		case "remove":
			err = store.Delete(own.DeepCopy())
		case "replace":
			err = store.Replace(append(store.List(), own.DeepCopy()), "8")
		}
		if err != nil {
			sc.t.Fatal(err)
		}
	})
	return fmt.Sprint("the program writes ", name, ": ", how)
}

func newSubject(t *testing.T, w *podServer, make newInformer, opts cache.SharedIndexInformerOptions, transform bool) *subject {
	s := &subject{server: w, inf: make(w, &corev1.Pod{}, opts)}
	if err := s.inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { s.errs.add("", "%s", tooOld.ReplaceAllString(err.Error(), "")) }); err != nil {
		t.Fatal(err)
	}
	if transform {
		err := s.inf.SetTransform(func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			p.Spec.NodeName += "!"
			p.Labels = nil
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h := &handler{}
	var err error
	if h.reg, err = s.inf.AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	s.handlers = append(s.handlers, h)
	return s
}

// TestInformersAgreeWithClientGo runs random scenarios on both.
func TestInformersAgreeWithClientGo(t *testing.T) {
	for seed := range runs() {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { informerScenario(t, uint64(seed)) })
		})
	}
}

func informerScenario(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	sc := &scenario{t: t, rnd: rnd, resync: rnd.IntN(3) == 0}
	streaming, transform := rnd.IntN(2) == 0, rnd.IntN(3) == 0 && !(rnd.IntN(2) == 0)
	transform = transform && !streaming // client-go transforms twice then
	opts := cache.SharedIndexInformerOptions{}
	if sc.resync {
		opts.ResyncPeriod = 10 * time.Second
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	before := rnd.IntN(4)
	for i, make := range []newInformer{cache.NewSharedIndexInformerWithOptions, clientgo.NewSharedIndexInformerWithOptions} {
		sc.servers[i] = newPodServer(streaming)
		for j := range before {
			sc.servers[i].put(fmt.Sprintf("pod-%d", j), false)
		}
		opts.Indexers = cache.Indexers{"node": byNode}
		sc.subjects[i] = newSubject(t, sc.servers[i], make, opts, transform)
	}
	sc.compare("made")
	for i := range rnd.IntN(3) {
		sc.compare(sc.program(fmt.Sprintf("pod-%d", i)))
	}
	sc.each(func(s *subject) { running.Go(func() { s.inf.RunWithContext(ctx) }) })
	sc.compare("started")
	for range 25 {
		sc.compare(sc.step())
	}
	cancel()
	running.Wait()
	sc.compare("stopped")
	var errs []string
	sc.each(func(s *subject) {
		_, err := s.inf.AddEventHandler(cache.ResourceEventHandlerFuncs{})
		errs = append(errs, fmt.Sprint(err, s.inf.SetTransform(nil), s.inf.AddIndexers(nil)))
	})
	if errs[0] != errs[1] {
		t.Fatalf("after the end: client-go %s, ours %s", errs[0], errs[1])
	}
}
