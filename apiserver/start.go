package apiserver

import "context"

// TB is the part of [testing.TB] that [Start] needs.
type TB interface {
	// Helper marks the caller as not worth naming.
	Helper()
	// Cleanup is called when the test has ended.
	Cleanup(func())
	// Fatalf fails the test and ends it.
	Fatalf(format string, args ...any)
	// Errorf fails the test.
	Errorf(format string, args ...any)
}

// Start makes a server and runs it until the test has ended. It fails the test when
// that cannot be done, when a request makes the
// server panic, and when a fault struck nothing (see [Fault.MayMiss]). In a bubble of testing/synctest, call it with the bubble's own T
// and without an address.
func Start(t TB, opts Options) *Server {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	s.report = t.Errorf
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("%v", err)
		}
		if failed, ok := t.(interface{ Failed() bool }); ok && failed.Failed() {
			return // a test that ended early has a cause already
		}
		if skipped, ok := t.(interface{ Skipped() bool }); ok && skipped.Skipped() {
			return
		}
		for _, f := range s.faults.unused() {
			t.Errorf("apiserver: the fault %+v struck nothing; set MayMiss if it need not", f)
		}
	})
	return s
}
