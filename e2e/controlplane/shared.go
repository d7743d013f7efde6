package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"

	"go.uber.org/goleak"
)

// Shared is a control plane for all the tests of a package, which is started when the first
// of them asks for it. The zero value is ready:
//
//	var shared controlplane.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
//
// Tests that share a plane keep to namespaces of their own. Those that stop parts of it
// must not run in parallel with others; what they leave stopped is started for the next.
type Shared struct {
	// Options configure the plane. They default to the zero Options.
	Options Options

	mu    sync.Mutex // guards plane
	plane *Plane
}

// Run runs a package's tests, ends the plane and looks for goroutines that the tests left
// behind. It returns the status to exit with.
func (s *Shared) Run(m interface{ Run() int }) int {
	code := m.Run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plane != nil {
		if err := s.plane.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// Plane returns the plane, running. If the test fails, the end of both logs is in its
// output.
func (s *Shared) Plane(t TB) *Plane {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plane == nil {
		// It outlives the test that happens to be first.
		p, err := New(context.WithoutCancel(t.Context()), s.Options)
		if err != nil {
			t.Fatalf("%v", err)
		}
		s.plane = p
	}
	for _, part := range []*Part{s.plane.Etcd, s.plane.APIServer} {
		if part.State() == Paused {
			if err := part.Resume(); err != nil {
				t.Fatalf("%v", err)
			}
		}
		if part.State() == Stopped {
			if err := part.Start(t.Context()); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
	t.Cleanup(func() { s.plane.logFailure(t) })
	return s.plane
}
