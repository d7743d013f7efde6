package main

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/bench/crds"
	"github.com/tarnproject/tarn/object"
)

// replayJobs are the jobs that use the replay server.
var replayJobs = map[string]func(job) sample{
	"receive": func(j job) sample {
		if j.Replay.Way == byEvents {
			return receiveEvents(j)
		}
		return receiveAll(j)
	},
}

// receiver is one side's client. It calls back from one goroutine at a time.
type receiver interface {
	// all receives every object. It calls got for each one as soon as it is available, and
	// returns after the last.
	all(ctx context.Context, got func(arrived)) error
	// events receives changes until the server ends the stream.
	events(ctx context.Context, got func(arrived)) error
	// early reports whether objects are delivered before the last has arrived.
	early() bool
}

// arrived is a received object: its identity, and the object unless it was already held.
type arrived struct {
	key     object.Key
	uid     string
	version string
	object  metav1.Object
}

// arrivedObject returns the arrived form of a decoded object.
func arrivedObject(o metav1.Object) arrived {
	return arrived{
		key:     object.Key{Namespace: o.GetNamespace(), Name: o.GetName()},
		uid:     string(o.GetUID()),
		version: o.GetResourceVersion(),
		object:  o,
	}
}

// receiveAll receives a list and keeps all of it, as a cache does.
func receiveAll(j job) sample {
	want := j.Replay.objects(j.Objects)
	before := heap()
	r := newReceiver(j)
	kept := make([]metav1.Object, 0, want)
	var digest uint64
	g := newCollections()
	if !r.early() {
		g.received.Store(int64(want))
	}
	n := 0
	m := j.begin()
	err := r.all(context.Background(), func(a arrived) {
		digest += a.brief()
		n++
		if a.object != nil {
			kept = append(kept, a.object)
		}
		if r.early() {
			g.received.Add(1)
		}
	})
	s := m.end(want)
	check(err)
	g.stop()
	if n != want {
		fail("%d objects came; want %d", n, want)
	}
	if len(kept) != want && !(j.Replay.Held && len(kept) == 0) {
		fail("%d of %d objects were decoded", len(kept), want)
	}
	s.Live = float64(heap() - before)
	s.Beyond = g.beyond(float64(before), s.Live/float64(want))
	s.Digest = digest
	for _, o := range kept {
		d := arrivedObject(o).digest()
		if s.Content += d; d%499 == 0 {
			s.Content += content(o)
		}
	}
	runtime.KeepAlive(r)
	return s
}

// holding is the number of objects that a process keeps while it receives events.
const holding = 10_000

// receiveEvents receives changes and keeps the last ones.
func receiveEvents(j job) sample {
	want := j.Replay.objects(j.Objects)
	r := newReceiver(j)
	held := make([]metav1.Object, min(holding, want))
	var probes []metav1.Object
	var digest uint64
	n := 0
	m := j.begin()
	err := r.events(context.Background(), func(a arrived) {
		digest += a.brief()
		if a.object != nil {
			held[n%len(held)] = a.object
			if n%997 == 0 {
				probes = append(probes, a.object)
			}
		}
		n++
	})
	s := m.end(want)
	check(err)
	if n != want {
		fail("%d events came; want %d", n, want)
	}
	s.Digest = digest
	for _, o := range probes {
		s.Content += content(o)
	}
	runtime.KeepAlive(held)
	return s
}

// digest returns a checksum of the object's identity.
func (a arrived) digest() uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{a.key.Namespace, "/", a.key.Name, "/", a.uid, "/", a.version} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	return h
}

// brief is a very cheap digest.
func (a arrived) brief() uint64 {
	h := uint64(len(a.key.Namespace))<<40 + uint64(len(a.key.Name))<<32 + uint64(len(a.uid))<<24
	for i := range len(a.version) {
		h = h*31 + uint64(a.version[i])
	}
	return h
}

// content returns a checksum of the whole object except its kind, which typed clients omit.
func content(o metav1.Object) uint64 {
	var of any = o
	switch o := o.(type) {
	case *corev1.Pod:
		bare := *o
		bare.TypeMeta = metav1.TypeMeta{}
		of = &bare
	case *crds.Release:
		bare := *o
		bare.TypeMeta = metav1.TypeMeta{}
		of = &bare
	case *unstructured.Unstructured:
		of = o.Object
	}
	data, err := json.Marshal(of)
	check(err)
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}

// collections records, after every garbage collection, the live heap and the number of objects
// received.
type collections struct {
	received atomic.Int64

	mu    sync.Mutex // guards what follows
	done  bool
	notes []note
}

type note struct{ live, received float64 }

// sentinel is unreachable from the start, so its finalizer runs after each collection. The
// pointer keeps it out of the tiny allocator.
type sentinel struct{ _ *sentinel }

func newCollections() *collections {
	g := new(collections)
	g.arm()
	return g
}

func (g *collections) arm() {
	runtime.SetFinalizer(new(sentinel), func(*sentinel) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.done {
			return
		}
		g.notes = append(g.notes, note{float64(live[0].Value.Uint64()), float64(g.received.Load())})
		g.arm()
	})
}

func (g *collections) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = true
}

// beyond returns the largest live heap beyond the initial heap and the received objects, each of
// the given size.
func (g *collections) beyond(first, each float64) float64 {
	most := 0.0
	for _, n := range g.notes {
		most = max(most, n.live-first-n.received*each)
	}
	return most
}
