package clientgo

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// NewDeltaFIFO is client-go's constructor of that name.
func NewDeltaFIFO(keyFunc cache.KeyFunc, knownObjects cache.KeyListerGetter) *DeltaFIFO {
	return NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: keyFunc, KnownObjects: knownObjects})
}

// NewDeltaFIFOWithOptions is client-go's constructor of that name.
func NewDeltaFIFOWithOptions(opts cache.DeltaFIFOOptions) *DeltaFIFO {
	f := &DeltaFIFO{keyFunc: opts.KeyFunction, name: opts.Name, transform: opts.Transformer}
	if f.keyFunc == nil {
		f.keyFunc = cache.MetaNamespaceKeyFunc
	}
	if f.name == "" {
		f.name = "DeltaFIFO"
	}
	do := delta.Options[keyed]{ReplacedAsSync: !opts.EmitDeltaTypeReplaced}
	if opts.KnownObjects != nil {
		do.Known = listerGetter{opts.KnownObjects}
	}
	f.fifo = must(delta.New(plain, do))
	return f
}

// DeltaFIFO is client-go's DeltaFIFO over a delta.FIFO: pending deltas per key, taken key
// by key. It is a cache.Queue, a cache.TransformingStore and a cache.DoneChecker.
//
// A process function runs without a lock, one at a time, and may call every method but
// Pop. KnownObjects are asked with the FIFO locked, as in client-go.
type DeltaFIFO struct {
	fifo      *delta.FIFO[keyed]
	keyFunc   cache.KeyFunc
	name      string
	transform cache.TransformFunc
}

// listerGetter is what the consumer holds.
type listerGetter struct{ cache.KeyListerGetter }

// Keys implements delta.Known.
func (l listerGetter) Keys() iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		for _, key := range l.ListKeys() {
			if !yield(object.RawKey(key)) {
				return
			}
		}
	}
}

// Get implements delta.Known. A key that cannot be looked up exists all the same, without
// its object.
func (l listerGetter) Get(key object.Key) (keyed, bool) {
	obj, exists, err := l.GetByKey(key.String())
	switch {
	case err != nil:
		return keyed{key: key}, true
	case !exists:
		return keyed{}, false
	}
	return keyed{key, obj}, true
}

// Held implements delta.Known.
func (l listerGetter) Held(object.Key, object.UID, object.Version) bool { return false }

// KeyOf returns the key of an object, of a tombstone, or of Deltas.
func (f *DeltaFIFO) KeyOf(obj any) (string, error) {
	if d, ok := obj.(cache.Deltas); ok {
		if len(d) == 0 {
			return "", cache.KeyError{Obj: obj, Err: cache.ErrZeroLengthDeltasObject}
		}
		obj = d.Newest().Object
	}
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return d.Key, nil
	}
	return f.keyFunc(obj)
}

// recordOf returns an object, transformed, under its key. A tombstone is not transformed.
func (f *DeltaFIFO) recordOf(obj any) (keyed, error) {
	key, err := f.KeyOf(obj)
	if err != nil {
		return keyed{}, cache.KeyError{Obj: obj, Err: err}
	}
	if _, tombstone := obj.(cache.DeletedFinalStateUnknown); f.transform != nil && !tombstone {
		if obj, err = f.transform(obj); err != nil {
			return keyed{}, err
		}
	}
	return keyed{object.RawKey(key), obj}, nil
}

// Add implements cache.ReflectorStore.
func (f *DeltaFIFO) Add(obj any) error { return f.put(f.fifo.Add, obj) }

// Update implements cache.ReflectorStore.
func (f *DeltaFIFO) Update(obj any) error { return f.put(f.fifo.Update, obj) }

func (f *DeltaFIFO) put(put func(keyed) error, obj any) error {
	r, err := f.recordOf(obj)
	if err != nil {
		return err
	}
	return closedError(put(r))
}

func closedError(err error) error {
	if errors.Is(err, delta.ErrClosed) {
		return cache.ErrFIFOClosed
	}
	return err
}

// Delete implements cache.ReflectorStore. The deletion of what is neither known nor
// pending is dropped.
func (f *DeltaFIFO) Delete(obj any) error {
	r, err := f.recordOf(obj)
	if err != nil {
		return err
	}
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return closedError(f.fifo.DeleteUnknown(object.Tombstone[keyed]{Key: r.key, Object: keyed{r.key, t.Obj}}))
	}
	return closedError(f.fifo.Delete(r))
}

// Replace implements cache.ReflectorStore. An error changes nothing.
func (f *DeltaFIFO) Replace(list []any, version string) error {
	l := object.List[keyed]{Mark: object.Mark{Version: object.Version(version)}, Items: make([]object.Item[keyed], 0, len(list))}
	for _, obj := range list {
		r, err := f.recordOf(obj)
		if key := (cache.KeyError{}); err != nil && !errors.As(err, &key) {
			err = fmt.Errorf("couldn't enqueue object: %w", err)
		}
		if err != nil {
			return err
		}
		l.Items = append(l.Items, object.Item[keyed]{Key: r.key, Value: object.Decoded(r)})
	}
	return closedError(f.fifo.Replace(l))
}

// Resync implements cache.ReflectorStore.
func (f *DeltaFIFO) Resync() error { return closedError(f.fifo.Resync()) }

// Transformer implements cache.TransformingStore.
func (f *DeltaFIFO) Transformer() cache.TransformFunc { return f.transform }

// Pop implements cache.Queue.
func (f *DeltaFIFO) Pop(process cache.PopProcessFunc) (any, error) {
	var popped cache.Deltas
	err := f.fifo.Pop(context.Background(), func(deltas delta.Deltas[keyed], initial bool) error {
		popped = deltasOf(deltas)
		return process(popped, initial)
	})
	if popped == nil {
		return nil, closedError(err)
	}
	return popped, err
}

var deltaTypes = [...]cache.DeltaType{
	object.Added: cache.Added, object.Updated: cache.Updated, object.Deleted: cache.Deleted,
	object.Replaced: cache.Replaced, object.Synced: cache.Sync,
}

func deltasOf(deltas delta.Deltas[keyed]) cache.Deltas {
	out := make(cache.Deltas, len(deltas))
	for i := range deltas {
		d := &deltas[i]
		out[i].Type, out[i].Object = deltaTypes[d.Kind], d.New().obj
		if d.Unknown {
			out[i].Object = cache.DeletedFinalStateUnknown{Key: d.Key.String(), Obj: out[i].Object}
		}
	}
	return out
}

// HasSynced implements cache.Queue.
func (f *DeltaFIFO) HasSynced() bool { return f.fifo.HasSynced() }

// HasSyncedChecker implements cache.Queue.
func (f *DeltaFIFO) HasSyncedChecker() cache.DoneChecker { return f }

// Name implements cache.DoneChecker.
func (f *DeltaFIFO) Name() string { return f.name }

// Done implements cache.DoneChecker.
func (f *DeltaFIFO) Done() <-chan struct{} { return f.fifo.Synced() }

// Close implements cache.Queue. Unlike client-go's, a closed FIFO takes nothing more.
func (f *DeltaFIFO) Close() { f.fifo.Close() }

// IsClosed reports whether Close has been called.
func (f *DeltaFIFO) IsClosed() bool { return f.fifo.Closed() }
