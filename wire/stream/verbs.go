package stream

import (
	"context"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// List returns one page of a list: everything, unless opts has a Limit. The caller owns the
// objects. An object that cannot be decoded is an error. Requests are retried as the client's
// [wire.Retry] says. A program that lists often should keep a [Source], because List compiles its
// decoder with each call.
func List[T any](ctx context.Context, api *wire.API[T], opts object.ListOptions) ([]T, object.Page, error) {
	s, err := unshared(api)
	if err != nil {
		return nil, object.Page{}, err
	}
	var out []T
	page, err := s.List(ctx, opts, nil, func(item object.Item[T]) error {
		if item.Err != nil {
			call := wire.Call{Verb: string(wire.VerbList), Resource: s.Resource(), Key: item.Key}
			return &wire.TransportError{Call: call, Err: item.Err, Attempts: 1}
		}
		out = append(out, item.Object)
		return nil
	})
	if err != nil {
		return nil, object.Page{}, err
	}
	return out, page, nil
}

// Watch opens a watch. The caller owns the objects and must close the stream. The request is
// retried as the client's [wire.Retry] says; a stream that ended is not reopened.
func Watch[T any](ctx context.Context, api *wire.API[T], opts object.WatchOptions) (object.Stream[T], error) {
	s, err := unshared(api)
	if err != nil {
		return nil, err
	}
	return s.Watch(ctx, opts, nil)
}

// unshared returns a source for a caller that may write to the objects.
func unshared[T any](api *wire.API[T]) (*Source[T], error) {
	s, err := NewSource(api, object.Selection{}, Options{DisableSharing: true})
	if s != nil {
		s.retry = true
	}
	return s, err
}
