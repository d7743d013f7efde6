package tarn_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
)

// ownReconciles do the reads and writes of a model in the reconciles of one key, one after the other. What a reconcile
// reads is not older than what that key has written.
type ownReconciles struct {
	kick chan tarn.Key

	mu   sync.Mutex // guards all below
	jobs []func(ctx context.Context) error
}

// reconcile has the reads and writes done in reconciles.
func (m *ownModel) reconcile(cluster *tarn.Cluster) {
	w := &ownReconciles{kick: make(chan tarn.Key, 100)}
	m.within = w
	must(tarn.NewController(cluster, "own", func(ctx context.Context, _ tarn.Key) (tarn.Result, error) {
		w.mu.Lock()
		var job func(ctx context.Context) error
		if len(w.jobs) > 0 {
			job = w.jobs[0]
		}
		w.mu.Unlock()
		if job == nil {
			return tarn.Result{}, nil
		}
		if err := job(ctx); held(err) {
			return tarn.Result{}, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.jobs = w.jobs[1:]
		return tarn.Result{RequeueAfter: time.Nanosecond}, nil
	}, tarn.From(controller.Channel("kick", w.kick))))
}

// run calls f at once, or in a reconcile after an idle time, in which older states may arrive.
func (m *ownModel) run(ctx context.Context, wait *sync.WaitGroup, f func(ctx context.Context) error) {
	w := m.within
	if w == nil {
		wait.Go(func() { _ = f(ctx) })
		return
	}
	idle := time.Duration(m.rand.IntN(1000)) * time.Millisecond
	wait.Add(1)
	done := sync.OnceFunc(wait.Done)
	number, _ := m.ackedSo(m.keys[0])
	late := time.AfterFunc(time.Hour, func() {
		m.read(reading{number: number, how: "reconcile", key: m.keys[0], err: errors.New("held for an hour")})
		done()
	})
	w.mu.Lock()
	w.jobs = append(w.jobs, func(ctx context.Context) error {
		<-time.After(idle)
		err := f(ctx)
		if !held(err) {
			late.Stop()
			done()
		}
		return err
	})
	w.mu.Unlock()
	w.kick <- tarn.Key{Name: "own"}
}

// held reports whether a reconcile is to be repeated once a cache has caught up.
func held(err error) bool {
	return errors.Is(err, controller.ErrStaleCache) || errors.Is(err, controller.ErrNotSynced)
}
