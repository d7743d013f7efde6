package main

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/bench/crds"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

type custom = *unstructured.Unstructured

// customLabel is the label of the index of custom resources.
const customLabel = "app.kubernetes.io/name"

// customSyncRows measures the first sync of an informer of unstructured custom resources, with an
// index by namespace and one by label.
func customSyncRows(l *lab) []Row {
	j := job{Measure: "custom-sync", Replay: l.prepare(replay{Resource: releaseResource, Encoding: jsonEncoding, Way: byStream})}
	s := l.turns(l.someRounds(), j, sideClientGo, sideTarn)
	j.Compact = true
	compact := l.turns(l.someRounds(), j, sideTarn)[0]
	j.Reads = "none"
	unread := l.turns(l.someRounds(), j, sideTarn)[0]
	n := number(float64(j.Replay.objects(l.objects)))
	return []Row{
		newRow("43 informer: initial sync of "+n+" unstructured objects, CPU", cpuEach(s[0]), cpuEach(s[1]), better(4, "less CPU")),
		newRow("+ informer: live heap after sync of unstructured objects", liveEach(s[0]), liveEach(s[1])),
		newRow("+ informer: live heap after sync of unstructured objects, Tarn compact", liveEach(s[0]), liveEach(compact)),
		beside("decoded", newRow("43 compact: initial sync of unstructured objects, a handler, CPU", cpuEach(s[1]), cpuEach(compact), costs(1.25, "the CPU"))),
		beside("decoded", newRow("43 compact: initial sync of unstructured objects, no reader, CPU", cpuEach(s[1]), cpuEach(unread), costs(0.9, "the CPU"))),
	}
}

// customSync fills an informer of custom resources from the replay server.
func customSync(j job) sample {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var added atomic.Int64
	before := heap()
	sync := tarnCustom
	if j.Side == sideClientGo {
		sync = clientGoCustom
	}
	meter := j.begin()
	length := sync(ctx, j, &running, func() { added.Add(1) })
	settle()
	s := meter.end(1)
	s.Live = float64(heap() - before)
	if n, want := length(), j.Replay.objects(j.Objects); n != want || added.Load() != int64(want) {
		fail("%d objects and %d additions; want %d", n, added.Load(), want)
	}
	cancel()
	running.Wait()
	return s
}

func clientGoCustom(ctx context.Context, j job, running *sync.WaitGroup, added func()) (length func() int) {
	inf := cache.NewSharedIndexInformerWithOptions(newClientGo(j.Replay).lw, &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"label":              func(obj any) ([]string, error) { return []string{obj.(metav1.Object).GetLabels()[customLabel]}, nil },
	}})
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added() }})
	check(err)
	running.Go(func() { inf.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced, reg.HasSynced) {
		fail("client-go's informer did not sync")
	}
	return func() int { return len(inf.GetIndexer().ListKeys()) }
}

func tarnCustom(ctx context.Context, j job, running *sync.WaitGroup, added func()) (length func() int) {
	client, err := wire.New(j.Replay.config(), wire.Options{})
	check(err)
	src, err := stream.NewSource(wire.For(client, wire.Unstructured(crds.Resource)), object.Selection{}, stream.Options{})
	check(err)
	opts := informer.Options[custom]{Indexes: []store.AnyIndex[custom]{
		store.NewIndex("namespace", custom.GetNamespace).Reads(object.FieldPath{"metadata", "namespace"}),
		store.NewIndex("label", func(u custom) string { return u.GetLabels()[customLabel] }).Reads(object.FieldPath{"metadata", "labels"}),
	}}
	if j.Compact {
		opts.Form = store.Packed(custom.MarshalJSON, src.Decode)
	}
	inf, err := informer.New(src, object.Meta[custom](), opts)
	check(err)
	var sub *informer.Subscription
	if j.Reads == "none" {
		sub, err = inf.SubscribeBatch(func(_ context.Context, events []informer.Event[custom]) {
			for range events {
				added()
			}
		}, informer.SubOptions[custom]{})
	} else {
		sub, err = inf.Subscribe(informer.Handler[custom]{OnAdd: func(custom, bool) { added() }}, informer.SubOptions[custom]{})
	}
	check(err)
	running.Go(func() { check(inf.Run(ctx)) })
	check(inf.WaitSynced(ctx))
	<-sub.Synced()
	return inf.Len
}
