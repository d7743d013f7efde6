package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/bench/pods"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// millionRows measures Tarn with one million pods: compact, and metadata only, decoded. Managed
// fields are kept in both.
func millionRows(l *lab) []Row {
	var rows []Row
	for _, form := range []struct {
		name string
		job  job
	}{
		{"compact pods", job{Compact: true, Replay: replay{Resource: podResource}}},
		{"metadata", job{Replay: replay{Resource: metadataResource}}},
	} {
		j := form.job
		j.Measure, j.Replay.Encoding, j.Replay.Way = "million", protobufEncoding, byChurn
		j.Replay = l.prepare(j.Replay)
		s := l.turns(1, j, sideTarn)[0]
		add := func(title string, f *Figure, goals ...goal) {
			rows = append(rows, newRow(fmt.Sprintf("44 %s of %s: %s", form.name, number(float64(l.objects)), title), nil, f, goals...))
		}
		// The bounds of a sync are for compact pods.
		bound := func(g goal) []goal {
			if j.Compact {
				return []goal{g}
			}
			return nil
		}
		sync := cpuEach(s)
		sync.Note = "wall " + quantity(s[0].Wall, Nanoseconds)
		add("first sync, LIST, 3 indexes, a handler, CPU", sync, bound(atMost(28e9, Nanoseconds))...)
		add("live heap after the sync", liveEach(s), bound(atMost(0.9e9, Bytes))...)
		add("peak RSS of the sync", value(s, Bytes, "rss"), bound(atMost(1.8e9, Bytes))...)
		add("relist, nothing changed, CPU", value(s, Nanoseconds, "relist"))
		get := value(s, Nanoseconds, "p99")
		get.Note = "p50 " + quantity(s[0].Values["p50"], Nanoseconds)
		add("Get of a random key, 2,000 changes a second, p99", get, atMost(2_000, Nanoseconds))
		gc := value(s, Count, "gc")
		gc.Note = fmt.Sprintf("a collection takes %s of CPU, every %s s", quantity(s[0].Values["collection"], Nanoseconds), number(s[0].Values["period"]))
		add("GC, % of the CPU time at 1,000 changes a second", gc, atMost(5, Count))
		add("a change, CPU, without GC", value(s, Nanoseconds, "event"))
		keys := value(s, Nanoseconds, "index keys")
		keys.Note = number(s[0].Values["matches"]) + " matches"
		add("index query by label, keys", keys)
		add("index query by label, objects", value(s, Nanoseconds, "index objects"))
		diff := value(s, Nanoseconds, "diff")
		diff.Note = number(s[0].Values["differences"]) + " changes"
		add("Diff of two snapshots", diff)
	}
	return rows
}

// millionJob measures one form.
func millionJob(j job) sample {
	if j.Replay.Resource == podResource {
		return bigMirror(j, newMirror(j, nil).(*tarnMirror).informer, byApp)
	}
	type partial = *metav1.PartialObjectMetadata
	client, err := wire.New(j.Replay.config(), wire.Options{})
	check(err)
	src, err := stream.NewSource(wire.For(client, wire.Metadata(wire.MustOf[pod]().Resource)), object.Selection{}, stream.Options{})
	check(err)
	namespaces := store.NewIndex("namespace", func(m partial) string { return m.Namespace })
	apps := store.NewIndex("app", func(m partial) string { return m.Labels[pods.AppLabel] })
	opts := informer.Options[partial]{Indexes: []store.AnyIndex[partial]{namespaces, apps, store.NewOwnerIndex[partial]()}}
	opts.Reflector.Streaming = reflector.StreamingOff
	inf, err := informer.New(src, object.Meta[partial](), opts)
	check(err)
	return bigMirror(j, inf, apps)
}

// bigMirror syncs a mirror, then relists it, changes it, reads it and compares two snapshots.
func bigMirror[T metav1.Object](j job, inf *informer.Informer[T], index *store.Index[T, string]) sample {
	var added, updated atomic.Int64
	sub, err := inf.Subscribe(informer.Handler[T]{
		OnAdd:    func(T, bool) { added.Add(1) },
		OnUpdate: func(_, _ T) { updated.Add(1) },
	}, informer.SubOptions[T]{})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := heap()
	m := j.begin()
	stopped := make(chan error, 1)
	go func() { stopped <- inf.Run(ctx) }()
	check(inf.WaitSynced(ctx))
	<-sub.Synced()
	settle()
	s := m.end(1)
	s.Values = map[string]float64{"rss": float64(peakMemory())}
	s.Live = float64(heap() - before)
	if n := inf.Len(); n != j.Objects || added.Load() != int64(n) {
		fail("%d objects and %d additions; want %d", n, added.Load(), j.Objects)
	}

	sent := streams(j)
	m = j.part("relist").begin()
	control(j, expirePath)
	awaitStream(j, sent+1)
	settle()
	s.Values["relist"] = m.end(1).CPU
	if updated.Load() != 0 || added.Load() != int64(j.Objects) {
		fail("a relist without changes called the handler")
	}

	readBig(j, inf, s.Values)
	if updated.Load() == 0 {
		fail("the handler received no change")
	}
	collectBig(j, inf, s.Values)
	queryBig(j, inf, index, s.Values)
	cancel()
	check(<-stopped)
	return s
}

// part returns the job with another file for the profile.
func (j job) part(name string) job {
	if j.Profile != "" {
		j.Profile += "." + name
	}
	return j
}

// change makes the replay server send changes, and returns when the mirror has them. The server
// encodes them before it calls ready, which calls send.
func change[T any](j job, inf *informer.Informer[T], n, rate int, ready func(send func())) {
	query := url.Values{"resource": {j.Replay.Resource}, "n": {strconv.Itoa(n)}}
	last := control(j, changePath+"?"+query.Encode())
	ready(func() {
		control(j, sendPath+"?rate="+strconv.Itoa(rate))
		check(inf.WaitFor(context.Background(), object.Version(last)))
	})
}

// changesIn is the number of changes in some turns at a rate per second.
func (j job) changesIn(turns, rate int) int {
	return max(1, int(float64(turns)*j.Turn.Seconds()*float64(rate)))
}

// readBig reads random objects while changes arrive.
func readBig[T any](j job, inf *informer.Informer[T], values map[string]float64) {
	const rate = 2_000
	keys := make([]object.Key, 0, j.Objects)
	inf.View(func(snap store.Snapshot[T]) {
		for key := range snap.Keys() {
			keys = append(keys, key)
		}
	})
	rand.New(rand.NewPCG(8, 9)).Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	runtime.GC()
	change(j, inf, j.changesIn(100, rate), rate, func(send func()) {
		w := watch(func(i int) {
			if _, ok := inf.Get(keys[i%len(keys)]); !ok {
				fail("%s not found", keys[i%len(keys)])
			}
		}, send)
		values["p50"], values["p99"] = float64(w.all.quantile(0.5)), float64(w.all.quantile(0.99))
	})
}

// collectBig measures the share of the garbage collector while changes arrive. There is less than
// one collection in 30 seconds, so the share is that of a long run: the CPU time of a collection,
// measured once, as often as the allocations fill the heap. The runtime's own figures
// (/cpu/classes/gc) are wall time of its threads, which includes waiting for a busy processor.
func collectBig[T any](j job, inf *informer.Informer[T], values map[string]float64) {
	const rate = 1_000
	n := j.changesIn(300, rate)
	change(j, inf, n, rate, func(send func()) {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m := j.part("changes").begin()
		send()
		s := m.end(n)
		runtime.ReadMemStats(&after)
		settle()
		began := processTime()
		runtime.GC()
		one := float64(processTime() - began)
		work := max(1, s.CPU-one*float64(after.NumGC-before.NumGC-1)) // begin collects, too
		cycles := s.Bytes / float64(before.NextGC-before.HeapAlloc)
		values["collection"] = one
		values["period"] = s.Wall / cycles / 1e9
		values["gc"] = 100 * cycles * one / (work + cycles*one)
		values["event"] = work / float64(n)
	})
}

// queryBig measures index queries and the difference of two snapshots.
func queryBig[T any](j job, inf *informer.Informer[T], index *store.Index[T, string], values map[string]float64) {
	old := inf.Snapshot()
	defer old.Release()
	const changed = 1_000
	change(j, inf, min(changed, j.Objects), changed, func(send func()) { send() })
	snap := inf.Snapshot()
	defer snap.Release()
	var of []string
	for value := range index.Keys(snap) {
		if of = append(of, value); len(of) == 20 {
			break
		}
	}
	matches, found, differences := 0, 0, 0
	values["index keys"] = take(sideTarn, func(int) {
		for _, value := range of {
			matches += len(index.ObjectKeys(snap, value))
		}
	}, len(of)).ns
	values["index objects"] = take(sideTarn, func(int) {
		for _, value := range of {
			for range index.Get(snap, value) {
				found++
			}
		}
	}, len(of)).ns
	if found != matches {
		fail("an index has %d keys and %d objects", matches, found)
	}
	values["matches"] = float64(matches) / float64(len(of))
	values["diff"] = take(sideTarn, func(int) {
		for range store.Diff(old, snap) {
			differences++
		}
	}, 1).ns
	if want := min(changed, j.Objects); differences != want {
		fail("Diff found %d changes; want %d", differences, want)
	}
	values["differences"] = float64(differences)
}
