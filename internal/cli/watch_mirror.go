package cli

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// viewMirror is a mirror that a view shows: of objects, or of the rows of the server's tables.
type viewMirror interface {
	Run(context.Context) error
	Synced() <-chan struct{}
	WaitSynced(context.Context) error
	Status() informer.Status
	Len() int

	// subscribe calls show with the objects and then with every change. If synced is not nil, it is called between the two,
	// and changes are not combined.
	subscribe(show func([]objectChange), synced func()) error
	// objects returns the objects in the order of their keys.
	objects() []objectChange
}

// mirrorView implements [viewMirror].
type mirrorView[T any] struct {
	*informer.Informer[T]
	res object.Resource
	acc object.Accessor[T]
}

// newObjectMirror returns a mirror of objects. It never decodes managed fields unless they are
// to be shown.
func newObjectMirror(e *env, client *wire.Client, res object.Resource, sel object.Selection, managedFields bool, failed func(error)) (viewMirror, error) {
	var opts stream.Options
	if !managedFields {
		opts.Drop = []object.FieldPath{object.ManagedFields}
	}
	source, err := stream.NewSource(wire.For(client, wire.Unstructured(res)), sel, opts)
	if err != nil {
		return nil, err
	}
	return newViewMirror(e, source, object.Meta[*unstructured.Unstructured](), res, sel, reflector.StreamingAuto, failed)
}

// newRowMirror returns a mirror of the rows of the server's tables.
func newRowMirror(e *env, client *wire.Client, res object.Resource, sel object.Selection, failed func(error)) (viewMirror, error) {
	source := &tableSource{client: client, res: res}
	return newViewMirror(e, source, rowAccessor, res, sel, reflector.StreamingOff, failed)
}

func newViewMirror[T any](e *env, source reflector.Source[T], acc object.Accessor[T], res object.Resource, sel object.Selection, streaming reflector.Mode, failed func(error)) (viewMirror, error) {
	inf, err := informer.New(source, acc, informer.Options[T]{
		Name: res.String(), Selection: sel, Logger: e.log,
		Reflector: reflector.Options[T]{OnError: failed, Streaming: streaming},
	})
	return mirrorView[T]{inf, res, acc}, err
}

func (m mirrorView[T]) subscribe(show func([]objectChange), synced func()) error {
	_, err := m.SubscribeBatch(func(_ context.Context, events []informer.Event[T]) {
		all := make([]objectChange, 0, len(events))
		for _, ev := range events {
			if ev.Kind == object.Synced {
				continue
			}
			h := objectChange{res: m.res, key: ev.Key, kind: ev.Kind, initial: ev.Initial, unseen: ev.Unknown}
			h.set(ev.Old(), ev.New())
			all = append(all, h)
		}
		show(all)
	}, informer.SubOptions[T]{Name: "view", EveryChange: synced != nil, OnSynced: synced})
	return err
}

func (m mirrorView[T]) objects() (all []objectChange) {
	snapshot := m.Snapshot()
	defer snapshot.Release()
	for obj := range snapshot.Sorted() {
		key, _ := m.acc.Key(obj) // the mirror has read it before
		h := objectChange{res: m.res, key: key, kind: object.Added, initial: true}
		h.set(nil, obj)
		all = append(all, h)
	}
	return all
}
