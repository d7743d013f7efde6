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
// In a run of [Explore], a panic of the program fails the run, unless its process was killed. A panic
// in a goroutine that the program starts cannot be recovered: it ends the test binary, as it
// does outside of Explore. The last subtest that began is then the schedule.
func (s *Server) Supervise(t TB, program func(ctx context.Context, cfg *rest.Config) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan bool, 1)
	var panicked func(any, []byte)
	if s.plan != nil {
		panicked = func(p any, stack []byte) { t.Errorf("the program panicked: %v\n%s", p, stack) }
	}
	go func() { done <- s.supervise(ctx, program, panicked) }()
	t.Cleanup(func() {
		stop()
		if returned := <-done; !returned {
			t.Errorf("apiserver: the program did not return within %v when its context had ended", stopLimit)
			if t, ok := t.(interface{ Leaked() }); ok {
				t.Leaked()
			}
		}
	})
}

// supervise starts the program until ctx ends. It returns false if the program does not
// return. If panicked is not nil, panics of the program are recovered and passed to it.
func (s *Server) supervise(ctx context.Context, program func(context.Context, *rest.Config) error, panicked func(any, []byte)) bool {
	for n := 1; ctx.Err() == nil; n++ {
		process := s.Process(fmt.Sprintf("start %d", n))
		process.plan = s.plan
		if !s.runOnce(ctx, process, program, panicked) {
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
func (s *Server) runOnce(ctx context.Context, process *Process, program func(context.Context, *rest.Config) error, panicked func(any, []byte)) bool {
	defer process.Kill() // closes its connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := errors.New("the program ended its goroutine") // as t.Fatal does
		defer func() { ended <- err }()
		if panicked != nil {
			defer func() {
				p := recover()
				if p == nil {
					return
				}
				err = fmt.Errorf("panic: %v", p)
				if !process.isKilled() { // a killed process does nothing any more
					panicked(p, debug.Stack())
				}
			}()
		}
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
