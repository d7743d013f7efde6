package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// O01: a reflector with a transform asks for objects that it owns, in each list, streaming list
// and watch; one without does not.
func TestO01_AReflectorWithATransformAsksForOwnedObjects(t *testing.T) {
	for _, transform := range []func(*thing) (*thing, error){nil, func(o *thing) (*thing, error) { return o, nil }} {
		for _, mode := range []reflector.Mode{reflector.StreamingOff, reflector.StreamingOn} {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				asked := 0
				note := func(owned bool) {
					if asked++; owned != (transform != nil) {
						t.Errorf("owned is %v, a transform is set: %v", owned, transform != nil)
					}
				}
				src := reflector.SourceFuncs[*thing]{
					ListFunc: func(ctx context.Context, opts object.ListOptions, in *object.Intake[*thing], sink func(item) error) (object.Page, error) {
						note(in.Owned())
						return srv.List(ctx, opts, in, sink)
					},
					WatchFunc: func(ctx context.Context, opts object.WatchOptions, in *object.Intake[*thing]) (object.Stream[*thing], error) {
						note(in.Owned())
						return srv.Watch(ctx, opts, in)
					},
				}
				buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{})
				if err != nil {
					t.Fatal(err)
				}
				r, err := reflector.New(src, buffer, options{Transform: transform, Streaming: mode})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				for range 3 {
					if err := r.Step(ctx); err != nil {
						t.Error(err)
					}
				}
				cancel()
				_ = r.Step(ctx) // frees everything
				if want := map[reflector.Mode]int{reflector.StreamingOff: 2, reflector.StreamingOn: 1}[mode]; asked != want {
					t.Errorf("%d requests, want %d", asked, want)
				}
			})
		}
	}
}
