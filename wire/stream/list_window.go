package stream

import (
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// Sizes of a batch, the unit of work for other cores: large enough that passing it on costs
// little compared to decoding it, small enough that several fit in a window.
const (
	batchBytes = 32 << 10
	batchItems = 128
)

// window decodes items on several cores and delivers them in the order in which they were
// added. Only the goroutine that adds items calls the sink. A window buffers at most limit
// encoded bytes, or one batch.
//
// The adding goroutine decodes too. If the workers are busy, it decodes a full batch at once,
// while the bytes are in the CPU's cache. If the window is full, it decodes the oldest batch
// that no worker has claimed. So a single core needs no other goroutine, a short list starts
// none, and a window is never slower than decoding in a loop. The alternative, a pool of
// workers and a goroutine that delivers, costs two context switches per batch, and the sink
// would run on another goroutine.
//
// Items that are added after an error are dropped. The caller must call close.
type window[T any] struct {
	decode  func(raw []byte, item *object.Item[T])
	sink    func(object.Item[T]) error
	limit   int
	workers int        // maximum number of goroutines
	pool    *sync.Pool // of batches, for the next window

	filling *batch[T]
	queue   []*batch[T] // complete and not delivered, oldest first
	free    []*batch[T]
	bytes   int // encoded bytes in queue

	started int
	work    chan *batch[T]
	group   sync.WaitGroup
	stopped atomic.Bool
	err     error // of the sink
}

// batch is a run of items with the bytes of those to be decoded.
type batch[T any] struct {
	items   []object.Item[T]
	spans   []span // one per item
	raw     []byte
	claimed atomic.Bool
	done    chan struct{} // receives once, when a batch is decoded before its delivery
}

// span is the position of an item's bytes in its batch. For an item that needs no decoding,
// from is -1.
type span struct{ from, to int }

// ready adds an item that needs no decoding.
func (w *window[T]) ready(item object.Item[T]) error {
	if w.filling == nil && len(w.queue) == 0 {
		return w.deliver(&item)
	}
	b := w.batch()
	b.items = append(b.items, item)
	b.spans = append(b.spans, span{from: -1})
	return w.handOver(false)
}

// add adds an item to be decoded from raw. It does not keep raw.
func (w *window[T]) add(item object.Item[T], raw []byte) error {
	if w.workers == 0 {
		w.decode(raw, &item)
		return w.deliver(&item)
	}
	b := w.batch()
	from := len(b.raw)
	b.raw = append(b.raw, raw...)
	b.items = append(b.items, item)
	b.spans = append(b.spans, span{from, len(b.raw)})
	return w.handOver(false)
}

// flush decodes and delivers the remaining items.
func (w *window[T]) flush() error {
	if err := w.handOver(true); err != nil {
		return err
	}
	for len(w.queue) > 0 {
		if err := w.oldest(); err != nil {
			return err
		}
	}
	return nil
}

// close stops the workers and waits for them. Items that were not delivered are dropped.
func (w *window[T]) close() {
	w.stopped.Store(true)
	if w.work != nil {
		close(w.work)
		w.work = nil
	}
	w.group.Wait()
	for _, b := range w.free {
		w.pool.Put(b)
	}
}

// batch returns the batch to add items to.
func (w *window[T]) batch() *batch[T] {
	if w.filling != nil {
		return w.filling
	}
	if n := len(w.free); n > 0 {
		w.filling = w.free[n-1]
		w.free = w.free[:n-1]
		return w.filling
	}
	var ok bool
	if w.filling, ok = w.pool.Get().(*batch[T]); !ok {
		w.filling = &batch[T]{done: make(chan struct{}, 1)}
	}
	return w.filling
}

// handOver passes a full batch on to the workers, and delivers batches that are decoded or
// that exceed the window.
func (w *window[T]) handOver(last bool) error {
	b := w.filling
	if b == nil || !last && len(b.raw) < batchBytes && len(b.items) < batchItems {
		return w.err
	}
	w.filling = nil
	w.queue = append(w.queue, b)
	w.bytes += len(b.raw)
	if !last && !w.offer(b) {
		b.claimed.Store(true)
		w.decodeAll(b)
		b.done <- struct{}{} // does not block: no worker has b, and the channel has room for one
	}
	for len(w.queue) > 0 && (w.bytes > w.limit || len(w.queue[0].done) > 0) {
		if err := w.oldest(); err != nil {
			return err
		}
	}
	return w.err
}

// offer passes a batch on to a worker. It returns false if the workers' queue is full.
func (w *window[T]) offer(b *batch[T]) bool {
	if w.work == nil {
		w.work = make(chan *batch[T], 2*w.workers)
	}
	if w.started < w.workers {
		w.started++
		work := w.work
		w.group.Go(func() { w.run(work) })
	}
	select {
	case w.work <- b:
		return true
	default:
		return false
	}
}

// run is a worker.
func (w *window[T]) run(work <-chan *batch[T]) {
	for b := range work {
		if !w.stopped.Load() && b.claimed.CompareAndSwap(false, true) {
			w.decodeAll(b)
			b.done <- struct{}{}
		}
	}
}

func (w *window[T]) decodeAll(b *batch[T]) {
	for i, s := range b.spans {
		if s.from >= 0 && !w.stopped.Load() {
			w.decode(b.raw[s.from:s.to:s.to], &b.items[i])
		}
	}
}

// oldest delivers the first batch of the queue. It decodes the batch if no worker has claimed
// it.
func (w *window[T]) oldest() error {
	b := w.queue[0]
	mine := b.claimed.CompareAndSwap(false, true)
	if mine {
		w.decodeAll(b)
	} else {
		<-b.done
	}
	copy(w.queue, w.queue[1:])
	w.queue = w.queue[:len(w.queue)-1]
	w.bytes -= len(b.raw)
	for i := range b.items {
		if err := w.deliver(&b.items[i]); err != nil {
			return err
		}
	}
	clear(b.items) // the sink owns the objects
	if cap(b.raw) > 4*batchBytes {
		b.raw = nil
	}
	next := b
	if mine {
		// A worker may still receive b from the channel and read its claim, so only
		// its contents are reused.
		next = &batch[T]{done: b.done, items: b.items, spans: b.spans, raw: b.raw}
	}
	next.claimed.Store(false)
	next.items, next.spans, next.raw = next.items[:0], next.spans[:0], next.raw[:0]
	w.free = append(w.free, next)
	return nil
}

func (w *window[T]) deliver(item *object.Item[T]) error {
	if w.err == nil {
		w.err = w.sink(*item)
	}
	return w.err
}
