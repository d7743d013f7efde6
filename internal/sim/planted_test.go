package sim_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// A simulation that finds nothing proves little unless it finds what is there. Each of
// these plants a bug that a source, a reflector or a store could have.

// bug is a source that is wrong in a way that no reader can make up for.
type bug struct {
	sim.Source
	mu   sync.Mutex // guards rand
	rand *rand.Rand
	// page changes the items of a page.
	page func(items []object.Item[*sim.Thing]) []object.Item[*sim.Thing]
	// event changes an event, or leaves it out.
	event func(ev *object.Event[*sim.Thing]) (keep bool)
	// refused may open another watch instead of one that was refused.
	refused func(ctx context.Context, opts object.WatchOptions, err error) (object.Stream[*sim.Thing], error)
}

func (b *bug) List(ctx context.Context, opts object.ListOptions, in *object.Intake[*sim.Thing], sink func(object.Item[*sim.Thing]) error) (object.Page, error) {
	if b.page == nil {
		return b.Source.List(ctx, opts, in, sink)
	}
	var items []object.Item[*sim.Thing]
	page, err := b.Source.List(ctx, opts, in, func(item object.Item[*sim.Thing]) error {
		items = append(items, item)
		return nil
	})
	if err != nil {
		return page, err
	}
	for _, item := range b.page(items) {
		if err := sink(item); err != nil {
			return object.Page{}, err
		}
	}
	return page, nil
}

func (b *bug) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[*sim.Thing]) (object.Stream[*sim.Thing], error) {
	w, err := b.Source.Watch(ctx, opts, in)
	if err != nil && b.refused != nil {
		w, err = b.refused(ctx, opts, err)
	}
	if err != nil || b.event == nil {
		return w, err
	}
	return &buggy{Stream: w, bug: b}, nil
}

type buggy struct {
	object.Stream[*sim.Thing]
	bug *bug
}

func (b *buggy) Next() ([]object.Event[*sim.Thing], error) {
	for {
		events, err := b.Stream.Next()
		if err != nil {
			return nil, err
		}
		var out []object.Event[*sim.Thing]
		for _, ev := range events {
			if b.bug.event(&ev) {
				out = append(out, ev)
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
}

func (b *bug) sometimes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rand.IntN(10) == 0
}

// plantings are bugs of a source, by what they do.
var plantings = map[string]func(b *bug){
	"loses a deletion": func(b *bug) {
		b.event = func(ev *object.Event[*sim.Thing]) bool {
			return ev.Kind != object.Deleted || !b.sometimes()
		}
	},
	"loses an update": func(b *bug) {
		b.event = func(ev *object.Event[*sim.Thing]) bool {
			return ev.Kind != object.Updated || !b.sometimes()
		}
	},
	"revives what was deleted": func(b *bug) {
		b.event = func(ev *object.Event[*sim.Thing]) bool {
			if ev.Kind == object.Deleted && b.sometimes() {
				ev.Kind = object.Updated
			}
			return true
		}
	},
	"mixes up content and version": func(b *bug) {
		b.event = func(ev *object.Event[*sim.Thing]) bool {
			if t := ev.Item.Object; ev.Kind == object.Updated && t != nil && b.sometimes() {
				t.Spec--
			}
			return true
		}
	},
	"ends a streaming list too late": func(b *bug) {
		b.event = func(ev *object.Event[*sim.Thing]) bool {
			if ev.InitialEnd {
				ev.Item.Version += "0"
			}
			return true
		}
	},
	"takes a short list for a whole one": func(b *bug) {
		b.page = func(items []object.Item[*sim.Thing]) []object.Item[*sim.Thing] {
			return items[:max(0, len(items)-1)]
		}
	},
	"swallows a 410": func(b *bug) {
		b.refused = func(ctx context.Context, opts object.WatchOptions, err error) (object.Stream[*sim.Thing], error) {
			if !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
				return nil, err
			}
			page, err := b.Source.List(ctx, object.ListOptions{Selection: opts.Selection}, nil,
				func(object.Item[*sim.Thing]) error { return nil })
			if err != nil {
				return nil, err
			}
			opts.Version = page.Version // and what was in between is lost
			return b.Source.Watch(ctx, opts, nil)
		}
	},
}

// planted is how many seeds a planted bug may live.
const planted = 200

// hunt runs seeds until one fails, and reports which.
func hunt(t *testing.T, run func(seed uint64, trace *sim.Trace) error) {
	t.Helper()
	for seed := range uint64(planted) {
		if err := bubble(t, seed+1, nil, run); err != nil {
			t.Logf("found by seed %d: %v", seed+1, err)
			return
		}
	}
	t.Errorf("not found by %d seeds", planted)
}

func TestPlantedBugsOfASourceAreFoundInSteps(t *testing.T) {
	for what, plant := range plantings {
		t.Run(what, func(t *testing.T) {
			hunt(t, func(seed uint64, trace *sim.Trace) error {
				return newStepped(seed, trace, planter(seed, plant)).run(new(tally))
			})
		})
	}
}

func TestPlantedBugsOfASourceAreFoundConcurrently(t *testing.T) {
	for what, plant := range plantings {
		t.Run(what, func(t *testing.T) {
			hunt(t, func(seed uint64, trace *sim.Trace) error {
				return newPipeline(seed, trace, planter(seed, plant)).simulate(new(tally))
			})
		})
	}
}

func planter(seed uint64, plant func(*bug)) func(sim.Source) sim.Source {
	return func(src sim.Source) sim.Source {
		b := &bug{Source: src, rand: rand.New(rand.NewPCG(seed, 3))}
		plant(b)
		return b
	}
}

// This is wrong, too, but not beyond repair.
func TestL15_AnItemWronglyTakenForHeldIsListedAgain(t *testing.T) {
	for seed := range uint64(20) {
		err := bubble(t, seed+1, nil, func(seed uint64, trace *sim.Trace) error {
			return newPipeline(seed, trace, planter(seed, func(b *bug) {
				b.page = func(items []object.Item[*sim.Thing]) []object.Item[*sim.Thing] {
					for i := range items {
						if items[i].Object != nil && b.sometimes() {
							items[i].Object, items[i].Held = nil, true
						}
					}
					return items
				}
			})).simulate(new(tally))
		})
		if err != nil {
			t.Errorf("seed %d: %v", seed+1, err)
		}
	}
}

func TestPlantedBugsOfAStoreAreFound(t *testing.T) {
	type changes = []object.Change[*sim.Thing]
	for what, pass := range map[string]func(changes) changes{
		"loses the last change":    func(c changes) changes { return c[:len(c)-1] },
		"sends the first twice":    func(c changes) changes { return append(changes{c[0]}, c...) },
		"sends in the wrong order": func(c changes) changes { c[0], c[len(c)-1] = c[len(c)-1], c[0]; return c },
		"forgets that the final state is not known": func(c changes) changes {
			for i := range c {
				c[i].Unknown = !c[i].Unknown
			}
			return c
		},
	} {
		t.Run(what, func(t *testing.T) {
			hunt(t, func(seed uint64, trace *sim.Trace) error {
				s := newStepped(seed, trace, nil)
				n := 0
				s.pass = func(c changes) changes {
					if n++; n%5 == 0 && len(c) > 0 {
						return pass(c)
					}
					return c
				}
				return s.run(new(tally))
			})
		})
	}
}

func TestASeedReplaysExactly(t *testing.T) {
	for seed := range uint64(soak.Rounds(10)) {
		var traces [2]sim.Trace
		for i := range traces {
			err := bubble(t, seed+1, &traces[i], func(seed uint64, trace *sim.Trace) error {
				return newStepped(seed, trace, nil).run(new(tally))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if a, b := traces[0].String(), traces[1].String(); a != b {
			t.Fatalf("seed %d: two runs differ, of %d and %d bytes", seed+1, len(a), len(b))
		}
	}
}
