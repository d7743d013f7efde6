package controller

import (
	"context"
	"errors"
	"sync"
)

// Runner is something that runs until its context is done and returns when its last
// goroutine has ended: a [Controller], what [Led] returns, an informer. It returns nil if
// nothing went wrong.
type Runner interface {
	// Run returns when the context is done, or something failed.
	Run(ctx context.Context) error
}

// stopsFirst marks the Runners that read and use the others.
type stopsFirst interface{ stopsFirst() }

// Run runs everything until the context is done or the first fails, which stops the
// rest. It returns when all have ended, with all their errors joined. Controllers end
// first; the others, such as informers, go on until they have.
func Run(ctx context.Context, parts ...Runner) error {
	first, stop := context.WithCancel(ctx)
	defer stop()
	rest, stopRest := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRest()
	errs := make([]error, len(parts))
	var early, late, closing sync.WaitGroup
	for i, part := range parts {
		group, ctx := &late, rest
		if _, ok := part.(stopsFirst); ok {
			group, ctx = &early, first
		}
		group.Go(func() {
			if errs[i] = part.Run(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	closing.Go(func() {
		<-first.Done()
		early.Wait()
		stopRest()
	})
	early.Wait()
	late.Wait()
	stop()
	closing.Wait()
	return errors.Join(errs...)
}
