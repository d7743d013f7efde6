package reflector_test

import (
	"context"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// asleep is a thing at rest.
type asleep struct{ o *thing }

func (a asleep) Object() *thing { return a.o }

// Objects of lists, of either kind, are put to rest when they come, after the transform; those
// that are refused stay as they are.
func TestL09_ListedObjectsRestUntilTheListIsComplete(t *testing.T) {
	for name, streaming := range map[string]bool{"list": false, "streaming list": true} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y")
				srv.canStream = streaming
				opts := options{
					Transform: func(o *thing) (*thing, error) {
						c := *o
						c.value = "seen"
						return &c, nil
					},
					Rest: func(o *thing) (object.Resting[*thing], bool) {
						if o.value != "seen" {
							t.Errorf("%s rests before it was transformed", o.key)
						}
						return asleep{o}, o.key.Name != "y"
					},
				}
				if !streaming {
					opts = plain(opts)
				}
				r := prepare(t, srv, opts)
				ctx, cancel := context.WithCancel(t.Context())
				for r.Status().State != reflector.Watching {
					if err := r.Step(ctx); err != nil {
						t.Fatal(err)
					}
				}
				var lists []*object.List[*thing]
				if err := r.fifo.PopBatch(ctx, func(b *delta.Batch[*thing], _ bool) error {
					for _, d := range b.Deltas {
						lists = append(lists, d.List)
					}
					r.apply(b)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if len(lists) != 1 || len(lists[0].Items) != 2 {
					t.Fatalf("%d lists", len(lists))
				}
				for _, item := range lists[0].Items {
					rests := item.Rest != nil && item.Object == nil
					if rests != (item.Key.Name == "x") || item.Value().value != "seen" {
						t.Errorf("%s rests: %t", item.Key, rests)
					}
				}
				r.changesAre("Added a/x@11", "Added a/y@12")
				cancel()
				_ = r.Step(ctx) // closes what is open
			})
		})
	}
}
