package reflector_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// recorder is a sink that records a line for each change and mark.
type recorder struct {
	simtest.Recorder
	err  error  // what Apply returns
	then func() // at the end of each Apply
}

var (
	_ object.Sink[*thing] = (*recorder)(nil)
	_ object.Sink[*thing] = (*delta.Buffer[*thing])(nil)
	_ object.Sink[*thing] = (*delta.FIFO[*thing])(nil)
)

// Apply implements object.Sink.
func (r *recorder) Apply(b *object.Batch[*thing]) error {
	for _, c := range b.Changes {
		switch {
		case c.List != nil:
			r.Add("list of %d@%s", len(c.List.Items), c.List.Version)
		case c.Unknown:
			r.Add("%s? %s", c.Kind, c.Key)
		default:
			r.Add("%s %s@%s", c.Kind, c.Key, c.Version)
		}
	}
	for _, m := range b.Marks {
		r.Add("up to %s", m.Version)
	}
	if r.then != nil {
		r.then()
	}
	return r.err
}

// Held implements object.Sink.
func (r *recorder) Held(object.Key, object.UID, object.Version) bool { return false }

// step makes steps and returns what the sink was given.
func (r *recorder) step(t *testing.T, refl *reflector.Reflector[*thing], n int) []string {
	t.Helper()
	for range n {
		if err := refl.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r.Take()
}

func TestASinkGetsWhatArrivedTogetherAsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, sink := newServer("a/x", "a/y"), &recorder{}
		r, err := reflector.New(srv, sink, options{Streaming: reflector.StreamingOff})
		if err != nil {
			t.Fatal(err)
		}
		if got := sink.step(t, r, 3); !slices.Equal(got, []string{"list of 2@12", "up to 12"}) {
			t.Errorf("a list: %q", got)
		}
		srv.Set("a/z", value("v"))
		srv.Delete("a/y")
		srv.Set("a/x", value("w"))
		synctest.Wait()
		if got := sink.step(t, r, 1); !slices.Equal(got, []string{"Added a/z@13", "Deleted a/y@14", "Updated a/x@15", "up to 15"}) {
			t.Errorf("a read: %q", got)
		}
		sink.then = func() { r.Relist(errors.New("the consumer lost something")) }
		srv.Set("a/z", value("w"))
		sink.step(t, r, 1)
		sink.then = nil
		if got := sink.step(t, r, 2); !slices.Equal(got, []string{"list of 2@16", "up to 16"}) {
			t.Errorf("asked for a list: %q", got)
		}
		sink.err = delta.ErrClosed
		srv.Set("a/z", value("x"))
		_ = r.Step(t.Context()) // opens a watch
		if err := r.Step(t.Context()); err != delta.ErrClosed || r.Status().State != reflector.Stopped {
			t.Errorf("a closed sink: %v, %v", err, r.Status())
		}
	})
}
