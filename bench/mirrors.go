package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// mirror is one side's informer of pods, with the three indexes.
type mirror interface {
	// handle adds a handler for additions and updates. It must be called before start.
	handle(add, update func(pod))
	// start runs the informer and returns when every handler has the initial state.
	start()
	// get looks up an object.
	get(key object.Key, name string) pod
	len() int
	// stop ends the informer and waits for it.
	stop()
}

// newMirror returns a side's informer for a feed, or for the replay server if from is nil.
func newMirror(j job, from *feed) mirror {
	if j.Side == sideClientGo {
		var lw cache.ListerWatcher
		switch {
		case from != nil:
			lw = listOnly{from.clientGo()}
		case j.Replay.Way == byList:
			lw = listOnly{newClientGo(j.Replay).lw}
		default:
			lw = newClientGo(j.Replay).lw
		}
		inf := cache.NewSharedIndexInformerWithOptions(lw, &corev1.Pod{}, cache.SharedIndexInformerOptions{Indexers: indexers()})
		if j.Replay.Drop {
			check(inf.SetTransform(func(obj any) (any, error) {
				obj.(metav1.Object).SetManagedFields(nil)
				return obj, nil
			}))
		}
		return &clientGoMirror{informer: inf}
	}
	opts := informer.Options[pod]{Indexes: []store.AnyIndex[pod]{byNamespace, byNode, byApp}}
	var src reflector.Source[pod]
	if from != nil {
		src = from.tarn()
		opts.Reflector.Streaming = reflector.StreamingOff
	} else {
		client, err := wire.New(j.Replay.config(), wire.Options{})
		check(err)
		var how stream.Options
		if j.Replay.Drop {
			how.Drop = []object.FieldPath{object.ManagedFields}
		}
		pods, err := stream.NewSource(wire.For(client, wire.MustOf[pod]()), object.Selection{}, how)
		check(err)
		src = pods
		if j.Compact {
			opts.Form = store.Packed((*corev1.Pod).Marshal, pods.Decode)
		}
		if j.Replay.Way == byList || j.Replay.Way == byChurn {
			opts.Reflector.Streaming = reflector.StreamingOff
		}
	}
	inf, err := informer.New(src, meta, opts)
	check(err)
	return &tarnMirror{informer: inf, reads: j.Reads}
}

// clientGoMirror is client-go's SharedIndexInformer.
type clientGoMirror struct {
	informer cache.SharedIndexInformer
	synced   []cache.InformerSynced
	cancel   func()
	running  sync.WaitGroup
}

func (m *clientGoMirror) handle(add, update func(pod)) {
	reg, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { add(obj.(pod)) },
		UpdateFunc: func(_, obj any) { update(obj.(pod)) },
	})
	check(err)
	m.synced = append(m.synced, reg.HasSynced)
}

func (m *clientGoMirror) start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.running.Go(func() { m.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), append(m.synced, m.informer.HasSynced)...) {
		fail("client-go's informer did not sync")
	}
}

func (m *clientGoMirror) get(_ object.Key, name string) pod {
	obj, ok, err := m.informer.GetIndexer().GetByKey(name)
	check(err)
	if !ok {
		return nil
	}
	return obj.(pod)
}

func (m *clientGoMirror) len() int { return len(m.informer.GetIndexer().ListKeys()) }

func (m *clientGoMirror) stop() {
	m.cancel()
	m.running.Wait()
}

// tarnMirror is Tarn's informer.
type tarnMirror struct {
	informer *informer.Informer[pod]
	reads    string // see job.Reads; handlers get nil instead of what is not read
	subs     []*informer.Subscription
	cancel   func()
	running  sync.WaitGroup
}

func (m *tarnMirror) handle(add, update func(pod)) {
	if m.reads != "" {
		sub, err := m.informer.SubscribeBatch(func(_ context.Context, events []informer.Event[pod]) {
			for _, e := range events {
				var is pod
				if m.reads == "new" {
					is = e.New()
				}
				if e.Kind == object.Added {
					add(is)
				} else {
					update(is)
				}
			}
		}, informer.SubOptions[pod]{})
		check(err)
		m.subs = append(m.subs, sub)
		return
	}
	sub, err := m.informer.Subscribe(informer.Handler[pod]{
		OnAdd:    func(obj pod, _ bool) { add(obj) },
		OnUpdate: func(_, obj pod) { update(obj) },
	}, informer.SubOptions[pod]{})
	check(err)
	m.subs = append(m.subs, sub)
}

func (m *tarnMirror) start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.running.Go(func() { check(m.informer.Run(ctx)) })
	check(m.informer.WaitSynced(ctx))
	for _, sub := range m.subs {
		<-sub.Synced()
	}
}

func (m *tarnMirror) get(key object.Key, _ string) pod {
	p, _ := m.informer.Get(key)
	return p
}

func (m *tarnMirror) len() int { return m.informer.Len() }

func (m *tarnMirror) stop() {
	m.cancel()
	m.running.Wait()
}

// feed is an in-memory source: initial objects, then changes, a few at a time, like the reads
// of a connection.
type feed struct {
	initial []pod
	version string
	batches chan []pod
}

// perRead is the approximate number of events per read of a connection: 64 kB of pods.
const perRead = 16

func newFeed(initial []pod, version uint64) *feed {
	return &feed{initial: initial, version: fmt.Sprint(version), batches: make(chan []pod)}
}

// send delivers changes.
func (f *feed) send(objs []pod) {
	for len(objs) > 0 {
		n := min(perRead, len(objs))
		f.batches <- objs[:n]
		objs = objs[n:]
	}
}

// clientGo returns the feed for client-go. Its channel has room for one read.
func (f *feed) clientGo() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: f.version}}
			for _, p := range f.initial {
				l.Items = append(l.Items, *p)
			}
			return l, nil
		},
		WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (apiwatch.Interface, error) {
			out := make(chan apiwatch.Event, perRead)
			go func() {
				for {
					select {
					case <-ctx.Done():
						return
					case objs := <-f.batches:
						for _, p := range objs {
							select {
							case out <- apiwatch.Event{Type: apiwatch.Modified, Object: p}:
							case <-ctx.Done():
								return
							}
						}
					}
				}
			}()
			return openWatch(out), nil
		},
	}
}

// openWatch is a watch that only its context ends.
type openWatch chan apiwatch.Event

func (w openWatch) ResultChan() <-chan apiwatch.Event { return w }
func (w openWatch) Stop()                             {}

// tarn returns the feed for Tarn.
func (f *feed) tarn() reflector.Source[pod] {
	return reflector.SourceFuncs[pod]{
		ListFunc: func(_ context.Context, _ object.ListOptions, _ *object.Intake[pod], sink func(object.Item[pod]) error) (object.Page, error) {
			for _, p := range f.initial {
				item, err := object.ItemOf(meta, p)
				check(err)
				if err := sink(item); err != nil {
					return object.Page{}, err
				}
			}
			return object.Page{Version: object.Version(f.version)}, nil
		},
		WatchFunc: func(ctx context.Context, _ object.WatchOptions, _ *object.Intake[pod]) (object.Stream[pod], error) {
			var events []object.Event[pod]
			return reflector.StreamFuncs[pod]{NextFunc: func() ([]object.Event[pod], error) {
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case objs := <-f.batches:
					events = events[:0]
					for _, p := range objs {
						item, err := object.ItemOf(meta, p)
						check(err)
						events = append(events, object.Event[pod]{Kind: object.Updated, Item: item})
					}
					return events, nil
				}
			}}, nil
		},
	}
}
