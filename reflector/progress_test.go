package reflector

import (
	"testing"

	"github.com/tarnproject/tarn/object"
)

func TestAVersionIsCompleteWhenNoMoreEventsCanHaveIt(t *testing.T) {
	type step func(r *progress) bool
	event := func(v object.Version) step { return func(r *progress) bool { return r.event(v, false) } }
	deleted := func(v object.Version) step { return func(r *progress) bool { return r.event(v, true) } }
	bookmark := func(v object.Version) step { return func(r *progress) bool { return r.bookmark(v) } }
	for _, c := range []struct {
		name  string
		from  object.Version
		steps []step
		moved bool // by the last step
		want  progress
	}{
		{"an event", "10", []step{event("12")}, true, progress{Seen: "12", Complete: "12"}},
		{"a deletion", "10", []step{deleted("12")}, true, progress{Seen: "12", Complete: "10"}},
		{"two of one version", "10", []step{deleted("12"), deleted("12")}, false, progress{Seen: "12", Complete: "10"}},
		{"two of two versions", "10", []step{deleted("12"), deleted("13")}, true, progress{Seen: "13", Complete: "12"}},
		{"then an event", "10", []step{deleted("12"), event("13")}, true, progress{Seen: "13", Complete: "13"}},
		{"then a bookmark of it", "10", []step{deleted("12"), bookmark("12")}, true, progress{Seen: "12", Complete: "12"}},
		{"then a later bookmark", "10", []step{deleted("12"), bookmark("15")}, true, progress{Seen: "15", Complete: "15"}},
		{"then an older bookmark", "10", []step{deleted("12"), bookmark("11")}, false, progress{Seen: "12", Complete: "10"}},
		{"the same bookmark twice", "10", []step{bookmark("12"), bookmark("12")}, false, progress{Seen: "12", Complete: "12"}},
		{"a late event", "10", []step{event("9")}, false, progress{Seen: "10", Complete: "10"}},
		{"a late deletion", "10", []step{deleted("9")}, false, progress{Seen: "10", Complete: "10"}},
		{"a deletion of the version of an update (W15)", "10", []step{event("12"), deleted("12")}, false, progress{Seen: "12", Complete: "12"}},
		{"a deletion before anything is known", "", []step{deleted("12")}, true, progress{Seen: "12"}},
		{"no version", "10", []step{event("")}, false, progress{Seen: "10", Complete: "10"}},
		{"a bookmark without a version", "10", []step{bookmark("0")}, false, progress{Seen: "10", Complete: "10"}},
		{"versions without an order", "b", []step{deleted("a")}, true, progress{Seen: "a", Complete: "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, moved := progressTo(c.from), false
			for _, s := range c.steps {
				moved = s(&r)
			}
			if r != c.want || moved != c.moved {
				t.Errorf("at %+v, moved %v; want %+v, %v", r, moved, c.want, c.moved)
			}
		})
	}
}
