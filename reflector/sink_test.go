package reflector_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// diary is a sink that writes down what it is told.
type diary struct {
	lines []string
	err   error  // what it answers
	flush func() // at the end of each Flush
}

var (
	_ reflector.Sink[*thing] = (*diary)(nil)
	_ reflector.Flusher      = (*diary)(nil)
	_ reflector.Sink[*thing] = (*delta.FIFO[*thing])(nil)
)

func (d *diary) note(format string, args ...any) error {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
	return d.err
}

func (d *diary) Add(o *thing) error    { return d.note("add %s@%s", o.key, o.version) }
func (d *diary) Update(o *thing) error { return d.note("update %s@%s", o.key, o.version) }
func (d *diary) Delete(o *thing) error { return d.note("delete %s@%s", o.key, o.version) }
func (d *diary) DeleteUnknown(t object.Tombstone[*thing]) error {
	return d.note("unknown %s", t.Key)
}
func (d *diary) Replace(l object.List[*thing]) error {
	return d.note("list of %d@%s", len(l.Items), l.Version)
}
func (d *diary) Bookmark(m object.Mark) error { return d.note("bookmark %s", m.Version) }
func (d *diary) Resync() error                { return d.note("resync") }
func (d *diary) Flush(m object.Mark) {
	_ = d.note("flush %s", m.Version)
	if d.flush != nil {
		d.flush()
	}
}
func (d *diary) Held(object.Key, object.UID, object.Version) bool   { return false }
func (d *diary) HeldBy(object.Key, object.UID, object.Version) bool { return false }

func (d *diary) take() []string {
	defer func() { d.lines = nil }()
	return d.lines
}

// step makes steps and returns what the sink was told.
func (d *diary) step(t *testing.T, r *reflector.Reflector[*thing], n int) []string {
	t.Helper()
	for range n {
		if err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return d.take()
}

func TestASinkIsToldWhatArrivedTogetherAndThenToFlush(t *testing.T) {
	within(t, func(t *testing.T) {
		srv, d := newServer("a/x", "a/y"), &diary{}
		r, err := reflector.New(srv, d, options{Streaming: reflector.StreamingOff})
		if err != nil {
			t.Fatal(err)
		}
		var at []object.Version // that the status told in each Flush
		d.flush = func() { at = append(at, r.Status().Mark.Version) }
		if got := d.step(t, r, 3); !slices.Equal(got, []string{"list of 2@12", "flush 12"}) {
			t.Errorf("a list: %q", got)
		}
		srv.put("a/z", "v")
		srv.put("a/x", "w")
		srv.remove("a/y")
		if got := d.step(t, r, 1); !slices.Equal(got, []string{"add a/z@13", "update a/x@14", "delete a/y@15", "flush 15"}) {
			t.Errorf("a read: %q", got)
		}
		if !slices.Equal(at, []object.Version{"12", "15"}) {
			t.Errorf("the status said %q", at)
		}
		d.flush = func() { r.Relist(errors.New("the consumer lost something")) }
		srv.put("a/z", "w")
		d.step(t, r, 1)
		d.flush = nil
		if got := d.step(t, r, 2); !slices.Equal(got, []string{"list of 2@16", "flush 16"}) {
			t.Errorf("asked for a list: %q", got)
		}
		d.err = delta.ErrClosed
		srv.put("a/z", "x")
		_ = r.Step(t.Context()) // opens a watch
		if err := r.Step(t.Context()); err != delta.ErrClosed || r.Status().State != reflector.Stopped {
			t.Errorf("a closed sink: %v, %v", err, r.Status())
		}
	})
}
