package wire

import (
	"context"

	"github.com/tarnproject/tarn/object"
)

// List returns one page of what is selected: everything, unless there is a Limit.
// An object that cannot be decoded is an error here. Whoever keeps a mirror, or wants
// to see objects while they arrive, uses a [Source].
func (a *API[T]) List(ctx context.Context, opts object.ListOptions) ([]T, object.Page, error) {
	s, err := a.source()
	if err != nil {
		return nil, object.Page{}, err
	}
	var out []T
	page, err := s.List(ctx, opts, nil, func(item object.Item[T]) error {
		if item.Err != nil {
			call := Call{Verb: string(VerbList), Resource: a.resource.Resource, Key: item.Key}
			return &TransportError{Call: call, Err: item.Err, Attempts: 1}
		}
		out = append(out, item.Object)
		return nil
	})
	if err != nil {
		return nil, object.Page{}, err
	}
	return out, page, nil
}

// Watch opens a watch. The stream has to be closed.
func (a *API[T]) Watch(ctx context.Context, opts object.WatchOptions) (object.Stream[T], error) {
	s, err := a.source()
	if err != nil {
		return nil, err
	}
	return s.Watch(ctx, opts, nil)
}

// source returns the source behind List and Watch. Its objects share nothing, since
// whoever gets one here may change it and send it back.
func (a *API[T]) source() (*Source[T], error) {
	a.once.Do(func() {
		a.src, a.srcErr = a.Source(object.Selection{}, SourceOptions{
			DisableSharing: true, Retries: max(0, a.client.opts.Retry.Max),
		})
	})
	return a.src, a.srcErr
}
