package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/bench/pods"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// The object types of the benchmarks.
type (
	pod   = *corev1.Pod
	batch = object.Batch[pod]
)

// lab has the objects and one store per side that holds them.
type lab struct {
	objects int
	rounds  int
	nodes   int           // 0 for the default
	slim    bool          // the pods have only identity, labels and node
	turn    time.Duration // approximate duration of a turn of a duel

	cpuprofile string // path of the profile; separate processes append to the name
	stderr     io.Writer
	began      time.Time
	server     *server             // the replay server, once it is needed
	samples    map[string][]sample // of finished jobs, for measures that reuse them

	// pods are the objects that both stores hold, in the order of a server's list.
	pods    []pod
	version uint64 // the last one assigned

	// order is a random order of the pods; keys and names are the lookup arguments in that
	// order: the same text for both sides, in separate memory.
	order []int
	keys  []object.Key
	names []string

	rng     *rand.Rand
	writing []int // the order in which objects are updated

	indexer cache.Indexer
	store   *store.Store[pod]

	podBytes float64 // mean size of a pod on the heap
}

// The indexes, as a user of Tarn would write them.
var (
	byNamespace = store.NewIndex("namespace", func(p pod) string { return p.Namespace }).Reads(object.FieldPath{"metadata", "namespace"})
	byNode      = store.NewIndex("node", func(p pod) string { return p.Spec.NodeName }).Reads(object.FieldPath{"spec", "nodeName"})
	byApp       = store.NewIndex("app", func(p pod) string { return p.Labels[pods.AppLabel] }).Reads(object.FieldPath{"metadata", "labels"})
)

// indexers are the same for client-go.
func indexers() cache.Indexers {
	return cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"node": func(obj any) ([]string, error) {
			p, ok := obj.(*corev1.Pod)
			if !ok {
				return nil, fmt.Errorf("not a pod: %T", obj)
			}
			return []string{p.Spec.NodeName}, nil
		},
		"app": func(obj any) ([]string, error) {
			p, ok := obj.(*corev1.Pod)
			if !ok {
				return nil, fmt.Errorf("not a pod: %T", obj)
			}
			return []string{p.Labels[pods.AppLabel]}, nil
		},
	}
}

// meta reads the pods for Tarn.
var meta = object.Meta[pod]()

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
}

// newStore returns a Tarn store with the three indexes and the given ones.
func newStore(more ...store.AnyIndex[pod]) *store.Store[pod] {
	indexes := append([]store.AnyIndex[pod]{byNamespace, byNode, byApp}, more...)
	return store.Must(store.New(meta, store.Options[pod]{Indexes: indexes}))
}

// newLab returns a lab without objects.
func newLab(opts options, stderr io.Writer) *lab {
	return &lab{
		objects: opts.objects, rounds: opts.rounds, turn: opts.turn,
		cpuprofile: opts.cpuprofile, stderr: stderr, began: time.Now(),
	}
}

// progress reports progress on stderr.
func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(l.stderr, "%5.0fs %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

// fill generates the objects and fills both stores.
func (l *lab) fill() {
	objects := l.objects
	l.progress("generating %d pods", objects)
	opts := pods.Options{Objects: objects, Nodes: l.nodes}
	before := heap()
	plan := pods.NewPlan(opts)
	l.pods = make([]pod, objects)
	parallel(objects, func(i int) {
		p := plan.Pod(i)
		if l.slim {
			p = &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels},
				Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName},
			}
		}
		l.pods[i] = p
	})
	l.podBytes = float64(heap()-before) / float64(objects)
	l.version = plan.LastVersion()

	l.rng = rand.New(rand.NewPCG(1, 2))
	l.order = l.rng.Perm(objects)
	for _, i := range l.order {
		name := l.pods[i].Namespace + "/" + l.pods[i].Name
		l.names = append(l.names, name)
		l.keys = append(l.keys, object.RawKey(strings.Clone(name)))
	}
	l.indexer, l.store = newIndexer(), newStore()
	l.restore()
}

// empty drops the objects and the stores, to free memory for other processes.
func (l *lab) empty() {
	if l.pods == nil {
		return
	}
	l.pods, l.order, l.keys, l.names, l.writing = nil, nil, nil, nil, nil
	l.indexer, l.store = nil, nil
	debug.FreeOSMemory()
}

// restore resets both stores to the lab's pods.
func (l *lab) restore() {
	check(l.indexer.Replace(untyped(l.pods), l.lastVersion()))
	check(l.store.Replace(object.Version(l.lastVersion()), l.pods...))
}

func (l *lab) lastVersion() string { return strconv.FormatUint(l.version, 10) }

// draw returns n different objects, each object once per pass over all. Every pass has a new
// order; with the same order, objects of the last pass would be sequential in memory.
func (l *lab) draw(n int) []int {
	if len(l.writing) < n {
		l.writing = l.rng.Perm(l.objects)
	}
	drawn := l.writing[:n]
	l.writing = l.writing[n:]
	return drawn
}

// next returns new versions of n objects in random order. The lab assumes that both stores hold
// them, so both sides must write them.
func (l *lab) next(n int) []pod {
	out, at, first := make([]pod, n), l.draw(n), l.version+1
	parallel(n, func(i int) { out[i] = pods.Next(l.pods[at[i]], first+uint64(i)) })
	l.version += uint64(n)
	for i, p := range out {
		l.pods[at[i]] = p
	}
	return out
}

// successors returns a new version of every object, in list order. It does not affect the
// stores.
func (l *lab) successors() []pod {
	out := make([]pod, len(l.pods))
	first := l.version + 1
	parallel(len(out), func(i int) { out[i] = pods.Next(l.pods[i], first+uint64(i)) })
	l.version += uint64(len(out))
	return out
}

// copies returns equal copies of all objects, like a relist that finds no changes.
func (l *lab) copies() []pod {
	out := make([]pod, len(l.pods))
	parallel(len(out), func(i int) { out[i] = pods.Copy(l.pods[i]) })
	return out
}

// some returns how many objects a turn of writes uses: n, or fewer in small labs.
func (l *lab) some(n int) int { return max(1, min(n, l.objects/2)) }

// parallel calls do for every number below n.
func parallel(n int, do func(i int)) {
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				do(i)
			}
		})
	}
	wg.Wait()
}

func untyped(of []pod) []any {
	list := make([]any, len(of))
	for i, p := range of {
		list[i] = p
	}
	return list
}

// listed returns the batch of a list of these objects.
func listed(version string, of []pod) *batch {
	list, err := object.ListOf(meta, object.Version(version), of...)
	check(err)
	return &batch{
		Changes: []object.Change[pod]{{Kind: object.Replaced, List: &list}},
		Marks:   []object.Mark{list.Mark},
	}
}

// heap returns the bytes in use after two collections. The second one frees objects that the
// first one finalized.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// failure is the panic value of a measure that got a wrong result; run turns it into an error.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// fail ends the program, because the timing of a wrong result is meaningless.
func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
