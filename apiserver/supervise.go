package apiserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// restartDelay is the time from the end of a program to its next start.
	restartDelay = time.Second
	// stopLimit is how long a program may take to return when its context has ended.
	stopLimit = time.Minute
)

// Supervise runs a program until the test ends, like a Deployment with one replica. The
// program runs a controller on a config until ctx ends, and returns when all of its
// goroutines have ended. Each start is a new [Process]; when it is killed, all of its requests
// fail and its context ends. The program is started again one second after it returned.
//
// In a run of [Explore], a panic of the program fails the run. A panic
// in a goroutine that the program starts cannot be recovered: it ends the test binary, as it
// does outside of Explore. The last subtest that began is then the schedule.
func (s *Server) Supervise(t TB, program func(ctx context.Context, cfg *rest.Config) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan bool, 1)
	if s.plan != nil {
		program = recovered(t, program)
	}
	go func() { done <- s.supervise(ctx, program) }()
	t.Cleanup(func() {
		stop()
		if returned := <-done; !returned {
			t.Errorf("apiserver: the program did not return within %v when its context had ended", stopLimit)
			if t, ok := t.(interface{ leaked() }); ok {
				t.leaked()
			}
		}
	})
}

// recovered returns a program that fails the test and returns when it panics.
func recovered(t TB, program func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, cfg *rest.Config) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
				t.Errorf("the program panicked: %v\n%s", p, debug.Stack())
			}
		}()
		return program(ctx, cfg)
	}
}

// supervise starts the program until ctx ends. It returns false if the program does not
// return.
func (s *Server) supervise(ctx context.Context, program func(context.Context, *rest.Config) error) bool {
	for n := 1; ctx.Err() == nil; n++ {
		process := s.Process(fmt.Sprintf("start %d", n))
		process.plan = s.plan
		if !s.runOnce(ctx, process, program) {
			return false
		}
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
		}
	}
	return true
}

// runOnce runs the program until it returns, ctx ends or the process is killed. It returns
// false if the program does not return.
func (s *Server) runOnce(ctx context.Context, process *Process, program func(context.Context, *rest.Config) error) bool {
	defer process.Kill() // closes its connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := errors.New("the program ended its goroutine") // as t.Fatal does
		defer func() { ended <- err }()
		err = program(ctx, process.Config())
	}()
	select {
	case err := <-ended:
		if ctx.Err() == nil && !process.isKilled() {
			s.requests.returned(process.name, err)
		}
		return true
	case <-process.Killed():
	case <-ctx.Done():
	}
	cancel()
	select {
	case <-ended:
		return true
	case <-time.After(stopLimit):
		return false
	}
}
