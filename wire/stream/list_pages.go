package stream

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/internal/paging"
	"github.com/tarnproject/tarn/object"
)

// defaultPage is the page size of a whole list if the caller sets no Limit; kubectl uses the
// same.
const defaultPage = 500

// ListAll reads a whole list, page by page, and returns the list's metadata: its version, which
// is that of the first page. Without a Limit a page has 500 items.
//
// A list that takes longer than the server keeps old versions cannot be read to its end, because
// its continue token expires (410, L06). The items delivered so far are then void: ListAll calls
// restart with the cause and delivers all items again from the first. After two restarts in pages
// it requests the list without a limit, which cannot expire. With a nil restart it returns the
// cause instead.
//
// Everything else is as in [Source.List]: items go to sink in order, and the list is valid only
// if ListAll returns nil.
func (s *Source[T]) ListAll(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error, restart func(cause error)) (object.Page, error) {
	if opts.Continue != "" {
		return object.Page{}, fmt.Errorf("stream: a whole list starts with its first page; leave Continue empty")
	}
	if opts.Limit == 0 {
		opts.Limit = defaultPage
	}
	var pager paging.Pager
	for {
		page, err := s.List(ctx, pager.Request(opts), in, sink)
		if err != nil {
			expired := pager.Pages > 0 && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
			if !expired || restart == nil {
				return object.Page{}, err
			}
			restart(err)
			pager.Restart()
			continue
		}
		last, err := pager.Read(page)
		if err != nil {
			return object.Page{}, err
		}
		if last {
			return object.Page{Version: pager.Version}, nil
		}
	}
}

// Collect reads a whole list into memory. An item that cannot be decoded is included, with
// its Err.
func (s *Source[T]) Collect(ctx context.Context, opts object.ListOptions) (object.List[T], error) {
	var list object.List[T]
	page, err := s.ListAll(ctx, opts, nil,
		func(item object.Item[T]) error {
			if !item.Outside {
				list.Items = append(list.Items, item)
			}
			return nil
		},
		func(error) { list.Items = nil },
	)
	if err != nil {
		return object.List[T]{}, err
	}
	sel, err := s.narrow(opts.Selection)
	if err != nil {
		return object.List[T]{}, err
	}
	list.Mark = object.Mark{Scope: object.Scope(sel.Namespace), Version: page.Version, Shard: sel.Shard}
	return list, nil
}
