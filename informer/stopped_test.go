package informer_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// With the context of Run, which ends both, the error still says why nothing was listed.
func TestH06_WaitSyncedWithTheContextOfRunKeepsTheCause(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		srv.Refuse("", syscall.ECONNREFUSED)
		inf := newInformer(t, srv.Source(via), podOptions{})
		interrupt := errors.New("interrupt")
		ctx, cancel := context.WithCancelCause(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		waited := make(chan error, 1)
		go func() { waited <- inf.WaitSynced(ctx) }()
		synctest.Wait()
		cancel(interrupt)
		for _, err := range []error{<-waited, func() error { <-ran; return inf.WaitSynced(t.Context()) }()} {
			var e *informer.NotSyncedError
			if !errors.As(err, &e) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("the error does not say why nothing was listed: %v", err)
			}
		}
	})
}
