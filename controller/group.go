package controller

import (
	"context"
	"errors"
	"sync"
)

// Runner runs until its context is done and returns when its last goroutine has ended: a
// [Controller], the result of [WhileLeading], an informer. It returns nil after a clean stop.
type Runner interface {
	// Run returns when the context is done or after a failure.
	Run(ctx context.Context) error
}

// stopsFirst marks the Runners that depend on the others.
type stopsFirst interface{ stopsFirst() }

// Run runs all Runners until the context is done or one fails, which stops the others. It
// returns when all have ended, with their errors joined. Controllers stop first; the others,
// such as informers, run until all controllers have ended.
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
