package wire

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/object"
)

// defaultPage is the size of a page when a whole list is read without saying one; it
// is what kubectl asks for.
const defaultPage = 500

// maxRestarts is how often a list is begun again in pages before it is asked for in
// one piece (L06).
const maxRestarts = 2

// ListAll reads a whole list, page after page, and returns what stands around it: its
// version, that of the first page. Without a Limit pages have 500 items.
//
// A list that takes longer than the server keeps its old versions cannot be read to
// its end: its token expires (410, L06). What was delivered so far is then worth
// nothing; restart is told so, with the cause, and all items come again from the
// first. After two restarts the list is asked for in one piece, which cannot expire.
// With a nil restart the cause is returned instead.
//
// Everything else is as in [Source.List]: items go to sink in order, and the list
// counts only when ListAll returns nil.
func (s *Source[T]) ListAll(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error, restart func(cause error)) (object.Page, error) {
	if opts.Continue != "" {
		return object.Page{}, fmt.Errorf("wire: a whole list begins with its first page; leave Continue empty")
	}
	if opts.Limit == 0 {
		opts.Limit = defaultPage
	}
	for restarts := 0; ; {
		page, expired, err := s.pages(ctx, opts, in, sink)
		if expired && restart != nil {
			restart(err)
			if restarts++; restarts >= maxRestarts {
				opts.Limit = 0
			}
			continue
		}
		return page, err
	}
}

// pages reads pages until the last. expired says that a token was refused because it
// is too old.
func (s *Source[T]) pages(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (whole object.Page, expired bool, err error) {
	for first := true; ; first = false {
		page, err := s.List(ctx, opts, in, sink)
		if err != nil {
			expired := !first && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
			return object.Page{}, expired, err
		}
		if first {
			whole = object.Page{Version: page.Version}
		}
		// An empty page may have a next one (L07).
		if page.Continue == "" {
			return whole, false, nil
		}
		if page.Continue == opts.Continue {
			return object.Page{}, false, corrupt("the server gives the same page again and again")
		}
		// The token says which version is meant (L05).
		opts.Continue, opts.Version, opts.Match = page.Continue, "", ""
	}
}

// Collect reads a whole list into memory. An item that cannot be decoded is among
// the others, with its Err.
func (s *Source[T]) Collect(ctx context.Context, opts object.ListOptions) (object.List[T], error) {
	var list object.List[T]
	page, err := s.ListAll(ctx, opts, nil,
		func(item object.Item[T]) error {
			list.Items = append(list.Items, item)
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
	list.Mark = object.Mark{Scope: object.Scope(sel.Namespace), Version: page.Version}
	return list, nil
}
