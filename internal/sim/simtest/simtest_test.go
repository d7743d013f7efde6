package simtest_test

import (
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The example of the package's comment, with a streaming list.
func TestAHandlerGetsWhatChanged(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/web")
		srv.Streams = true
		pods, err := informer.New(srv.Source(via), object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{})
		if err != nil {
			t.Fatal(err)
		}
		var r simtest.Recorder
		if _, err := pods.Subscribe(r.PodHandler(), informer.SubOptions[*corev1.Pod]{}); err != nil {
			t.Fatal(err)
		}
		go pods.Run(t.Context())
		simtest.Advance(time.Minute)
		srv.Cut(io.ErrUnexpectedEOF)
		srv.Set("shop/web")
		simtest.Advance(time.Minute)
		simtest.Want(t, "calls", r.Take(), []string{"add! shop/web@101", "update shop/web@101>102"})
		simtest.Want(t, "requests", srv.Requests(), []string{`STREAM "" NotOlderThan`, `WATCH "101"`})
	})
}
