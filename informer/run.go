package informer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Run mirrors the resource and serves subscribers until the context is done. It returns when all
// its goroutines have ended, so it waits for subscriber calls that are in progress. It returns
// nil if the context is done, and an [*object.PanicError] if a source panicked. An informer runs
// once; a second call returns an error.
func (inf *Informer[T]) Run(ctx context.Context) error {
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if err := inf.start(run, fail); err != nil {
		return err
	}
	apply := inf.apply // one function value for all batches
	process := func(b *object.Batch[T]) error {
		inf.around(b, apply)
		return nil
	}
	// The only error is the cause of run.
	for inf.queue.PopBatch(run, process) == nil {
	}
	inf.stop()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("informer %s: %w", inf.opts.Name, context.Cause(run))
}

// start starts the goroutines of Run.
func (inf *Informer[T]) start(run context.Context, fail context.CancelCauseFunc) error {
	inf.writer.Lock()
	defer inf.writer.Unlock()
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != fresh {
		return errors.New("informer: already started; an informer runs once")
	}
	inf.phase, inf.run, inf.fail = running, run, fail
	for _, s := range inf.waiting {
		inf.running.Go(s.serve)
	}
	inf.waiting = nil
	for _, src := range inf.sources {
		inf.running.Go(func() { inf.follow(src) })
	}
	if inf.opts.OnMutation != nil {
		inf.running.Go(func() { inf.watchMutations(run) })
	}
	if len(inf.sources) == 0 {
		inf.initial = true
		inf.log.commit(inf.log.begin(), revisionOf(inf.store), true)
		close(inf.synced)
		inf.moved.ring()
	}
	return nil
}

// stop ends the goroutines of Run, and all waits.
func (inf *Informer[T]) stop() {
	inf.mu.Lock()
	inf.phase = stopped
	inf.mu.Unlock()
	inf.fail(nil)
	inf.queue.Close() // a reflector may be waiting for room
	inf.log.end()
	close(inf.ended)
	inf.running.Wait()
	inf.writes.end()
	inf.store.CheckMutations()
}

// apply makes a batch one revision of the mirror and delivers its changes.
func (inf *Informer[T]) apply(b *object.Batch[T]) {
	inf.writer.Lock()
	defer inf.writer.Unlock()
	before := inf.log.begin()
	changes, err := inf.store.Apply(b, before)
	inf.writes.observe(b, changes[len(before):])
	if applied := inf.opts.Applied; applied != nil {
		inf.store.View(func(now store.Snapshot[T]) { applied(b, changes[len(before):], now) })
	}
	synced := inf.noteLists(b)
	inf.log.commit(changes, revisionOf(inf.store), synced)
	if synced {
		close(inf.synced)
	}
	inf.moved.ring()
	if err != nil {
		inf.refuse(b, err)
	}
}

// around calls Options.Around, and applies the batch itself if that panicked before it did.
func (inf *Informer[T]) around(b *object.Batch[T], apply func(*object.Batch[T])) {
	f := inf.opts.Around
	if f == nil {
		apply(b)
		return
	}
	once := sync.OnceFunc(func() { apply(b) })
	inf.guard("Around", func() { f(b, func(*object.Batch[T]) { once() }) })
	once()
}

// guard calls a function in the options that reports something, and logs its panic.
func (inf *Informer[T]) guard(option string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			inf.opts.Logger.Error("a function in the options of an informer panicked", "informer", inf.opts.Name,
				"option", option, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	f()
}

// noteLists records which sources have been listed, and makes all of them begin an epoch that one
// of them found. It reports whether that completes the initial state.
func (inf *Informer[T]) noteLists(b *object.Batch[T]) (synced bool) {
	listed := false
	for i := range b.Changes {
		if list := b.Changes[i].List; list != nil {
			listed = true
			inf.mu.Lock()
			inf.epoch = max(inf.epoch, list.Epoch)
			if src := inf.sources[list.Scope]; src != nil {
				src.applied(list.Version == "" && len(list.Items) == 0, list.Shard.Covers(inf.shard))
			}
			inf.mu.Unlock()
		}
	}
	if !listed {
		return false
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for _, src := range inf.sources {
		if src.refl != nil {
			src.refl.Rewound(inf.epoch)
		}
	}
	if inf.initial || len(inf.unlisted()) > 0 {
		return false
	}
	inf.initial = true
	return true
}

// refuse records objects that could not be stored. If a list omitted objects that the store does
// not hold after all, it requests another list.
func (inf *Informer[T]) refuse(b *object.Batch[T], err error) {
	inf.refused.Add(1)
	inf.refusal.Store(&err)
	inf.opts.Logger.Error("objects could not be held", "informer", inf.opts.Name, "error", err)
	if !errors.Is(err, store.ErrNotHeld) {
		return
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for i := range b.Changes {
		if list := b.Changes[i].List; list != nil {
			if src := inf.sources[list.Scope]; src != nil && src.refl != nil {
				src.refl.Relist(err)
			}
		}
	}
}

func (inf *Informer[T]) isRunning() bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.phase == running
}

// spawn runs f in a goroutine that Run waits for, and reports whether the informer runs.
func (inf *Informer[T]) spawn(f func(ctx context.Context)) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != running {
		return false
	}
	run := inf.run
	inf.running.Go(func() { f(run) })
	return true
}

func (inf *Informer[T]) watchMutations(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			inf.store.CheckMutations()
		case <-ctx.Done():
			return
		}
	}
}

// bell wakes waiting goroutines when the mirror has changed.
type bell struct {
	mu sync.Mutex
	ch chan struct{} // nil while no goroutine waits
}

// wait returns a channel that the next ring closes. Call it before checking the condition to wait
// for.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
