package reflector_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// recorder is a sink that records what it is given, a line for each change and mark.
type recorder struct {
	lines []string
	err   error  // what Apply returns
	then  func() // at the end of each Apply
}

var (
	_ object.Sink[*thing] = (*recorder)(nil)
	_ object.Sink[*thing] = (*delta.FIFO[*thing])(nil)
)

// Apply implements object.Sink.
func (r *recorder) Apply(b *object.Batch[*thing]) error {
	for _, c := range b.Changes {
		switch {
		case c.List != nil:
			r.lines = append(r.lines, fmt.Sprintf("list of %d@%s", len(c.List.Items), c.List.Version))
		case c.Unknown:
			r.lines = append(r.lines, fmt.Sprintf("%s? %s", c.Kind, c.Key))
		default:
			r.lines = append(r.lines, fmt.Sprintf("%s %s@%s", c.Kind, c.Key, c.Version))
		}
	}
	for _, m := range b.Marks {
		r.lines = append(r.lines, fmt.Sprintf("up to %s", m.Version))
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
	defer func() { r.lines = nil }()
	return r.lines
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
		srv.put("a/z", "v")
		srv.remove("a/y")
		srv.put("a/x", "w")
		if got := sink.step(t, r, 1); !slices.Equal(got, []string{"Added a/z@13", "Deleted a/y@14", "Updated a/x@15", "up to 15"}) {
			t.Errorf("a read: %q", got)
		}
		sink.then = func() { r.Relist(errors.New("the consumer lost something")) }
		srv.put("a/z", "w")
		sink.step(t, r, 1)
		sink.then = nil
		if got := sink.step(t, r, 2); !slices.Equal(got, []string{"list of 2@16", "up to 16"}) {
			t.Errorf("asked for a list: %q", got)
		}
		sink.err = delta.ErrClosed
		srv.put("a/z", "x")
		_ = r.Step(t.Context()) // opens a watch
		if err := r.Step(t.Context()); err != delta.ErrClosed || r.Status().State != reflector.Stopped {
			t.Errorf("a closed sink: %v, %v", err, r.Status())
		}
	})
}
