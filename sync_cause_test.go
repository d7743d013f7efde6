package tarn_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
)

// A program usually passes one context to Run and to WaitSynced. When it ends, the cause that
// users need is why the mirror was not synced, not that the context is done.
func TestH06_WaitSyncedWithTheContextOfRunKeepsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{})
		server.RefuseConnections(true)
		cluster, err := tarn.Connect(tarn.WithConfig(server.MemoryConfig()))
		if err != nil {
			t.Fatal(err)
		}
		pods, err := tarn.MirrorOf[*corev1.Pod](cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer pods.Close()
		ctx, interrupt := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- cluster.Run(ctx) }()
		time.AfterFunc(time.Minute, func() { interrupt(errors.New("interrupt")) })
		err = cluster.WaitSynced(ctx)
		if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("WaitSynced: %v; want the refused connection among the causes", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
