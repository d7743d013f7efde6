package apiserver

import "context"

// TB is the part of [testing.TB] that [Start] needs.
type TB interface {
	// Helper marks the caller as a test helper.
	Helper()
	// Cleanup registers a function to run at the end of the test.
	Cleanup(func())
	// Fatalf fails the test and stops it.
	Fatalf(format string, args ...any)
	// Errorf fails the test.
	Errorf(format string, args ...any)
}

// Start creates a server and runs it until the test ends. It fails the test if the server
// cannot be started, if a request makes it panic, or if a fault hit no request (see
// [Fault.Optional]). If the test fails, it logs [Server.RequestLog] and [Server.Denied]. In a testing/synctest bubble, pass the bubble's own T and leave
// Options.Address empty. In a BeforeSuite of Ginkgo, the test is that node, which does not fail with a
// spec: log both in an AfterEach.
func Start(t TB, opts Options) *Server {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	run(t, s)
	return s
}

// run runs a server until the test ends.
func run(t TB, s *Server) {
	t.Helper()
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
			if log, ok := t.(interface{ Logf(string, ...any) }); ok {
				log.Logf("apiserver: the requests of the failed test:\n%s", s.RequestLog())
				for _, denied := range s.Denied() {
					log.Logf("apiserver: %s", denied)
				}
			}
			return // a failed test may not have reached its faults
		}
		if skipped, ok := t.(interface{ Skipped() bool }); ok && skipped.Skipped() {
			return
		}
		for _, f := range s.faults.unused() {
			t.Errorf("apiserver: fault %+v did not hit any request; set Optional if that is expected", f)
		}
	})
}
