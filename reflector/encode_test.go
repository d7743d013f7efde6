package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// encoded is a thing in an encoded form.
type encoded struct{ o *thing }

func (e encoded) Get() *thing { return e.o }

// Objects of LISTs and streaming lists are encoded as they arrive, after the transform. Objects
// that cannot be encoded stay decoded.
func TestL09_ListedObjectsAreEncodedBeforeTheListIsComplete(t *testing.T) {
	for name, streaming := range map[string]bool{"list": false, "streaming list": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y")
				srv.Streams = streaming
				opts := options{
					Transform: func(o *thing) (*thing, error) {
						value("seen")(o)
						return o, nil
					},
					Encoder: func(live func() bool) object.Encoder[*thing] {
						return object.Encoder[*thing]{Encode: func(o *thing, _ []byte) (object.Encoded[*thing], error) {
							if o.Status.Message != "seen" || live() {
								t.Errorf("%s is encoded before it was transformed, or as a live one: %v", o.Name, live())
							}
							if o.Name == "y" {
								return nil, nil
							}
							return encoded{o}, nil
						}}
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
				if err := r.buffer.PopBatch(ctx, func(b *object.Batch[*thing]) error {
					for _, d := range b.Changes {
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
					is := item.Encoded != nil && item.Object == nil
					if is != (item.Key.Name == "x") || item.Get().Status.Message != "seen" {
						t.Errorf("%s is encoded: %t", item.Key, is)
					}
				}
				r.changesAre("Added a/x@11", "Added a/y@12")
				cancel()
				_ = r.Step(ctx) // closes open streams
			})
		})
	}
}
