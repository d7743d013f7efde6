package reflector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

// listing is a list that is being made, or is to be made: how, and what has come of it.
type listing[T any] struct {
	epoch object.Epoch
	// fresh: nothing counts as held, so everything is decoded.
	fresh bool
	// latest: ask for the most recent state, because the last version was refused.
	latest bool
	// plain: by LIST, although streaming lists are in use.
	plain    bool
	restarts int    // because a continue token had expired
	unpaged  string // why it is made without pages

	started time.Time
	page    int    // that is being read, from 1 on; 0 for a streaming list
	token   string // of that page
	version object.Version
	items   []object.Item[T]
	bad     quarantine
	held    int // items that were not decoded
	fold    fold[T]
}

// again throws away what has come, and leaves how.
func (l *listing[T]) again() {
	clear(l.items)
	*l = listing[T]{
		epoch: l.epoch, fresh: l.fresh, latest: l.latest, plain: l.plain,
		restarts: l.restarts, unpaged: l.unpaged, items: l.items[:0],
	}
}

// cutBack throws away what has come of the present page.
func (l *listing[T]) cutBack(n int) {
	for i := n; i < len(l.items); i++ {
		if l.items[i].Err != nil {
			l.bad.remove(l.items[i].Key)
		}
		if l.items[i].Held {
			l.held--
		}
	}
	clear(l.items[n:])
	l.items = l.items[:n]
}

// request returns what to ask for.
func (r *Reflector[T]) request(l *listing[T]) object.ListOptions {
	opts := object.ListOptions{Selection: r.opts.Selection, Continue: l.token}
	paged := r.opts.PageSize > 0 && l.unpaged == ""
	switch {
	case l.token != "":
	case r.atVersion(l):
		opts.Version, opts.Match = r.at.Seen, object.NotOlderThan
		paged = paged && r.paged
	case !r.synced && !l.latest:
		opts.Version = "0"
	}
	if paged {
		opts.Limit = r.opts.PageSize
	}
	return opts
}

// intake returns what the source does with the objects of a list or a watch. live reports
// whether they are no longer those of a list.
func (r *Reflector[T]) intake(held object.Held, live func() bool) *object.Intake[T] {
	in := &object.Intake[T]{Held: held, Transform: r.opts.Transform, Accessor: r.opts.Accessor}
	if r.opts.Encode != nil {
		in.Encode = func(obj T) object.Encoded[T] { return r.opts.Encode(obj, live()) }
	}
	return in
}

func never() bool { return false }

// heldBy returns what to ask whether an item of the list is held.
func (r *Reflector[T]) heldBy(l *listing[T]) object.Held {
	if l.fresh {
		return nil
	}
	return r.sink.Held
}

// stepListing reads one page.
func (r *Reflector[T]) stepListing(ctx context.Context) error {
	if err := r.takeSlot(ctx); err != nil {
		return err
	}
	l := &r.list
	if l.page == 0 {
		l.page, l.started = 1, time.Now()
		l.items = slices.Grow(l.items, r.size)
	}
	opts := r.request(l)
	before := len(l.items)
	page, err := r.readPage(ctx, l, opts)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && page.Continue != "" && page.Continue == l.token && len(l.items) == before:
		err = fmt.Errorf("an empty page has the continue token of itself: %w", object.ErrCorrupt)
	}
	if err != nil {
		return r.listFailed(opts, before, err)
	}
	r.counts.Pages++
	if l.page == 1 {
		// If pages differ, the first decides: a watch from there tells all the rest.
		l.version = page.Version
	}
	if page.Continue == "" {
		return r.finish(l)
	}
	if opts.Version == "0" {
		r.paged = true
	}
	l.token = page.Continue
	l.items = slices.Grow(l.items, int(min(max(page.Remaining, 0), maxGrow)))
	l.page++
	r.enter(Listing, func(s *Status) {
		s.Page = l.page
		s.Paged = r.paged
		r.publish(s)
	})
	return nil
}

// maxGrow bounds how much room is made because a server says how many items will come.
const maxGrow = 1 << 16

// readPage adds the items of a page to the list.
func (r *Reflector[T]) readPage(ctx context.Context, l *listing[T], opts object.ListOptions) (page object.Page, err error) {
	q := r.begin(ctx, r.opts.ListSilence)
	defer func() { err = r.end(q, err) }()
	in := r.intake(r.heldBy(l), never)
	return r.src.List(q.ctx, opts, in, func(item object.Item[T]) error {
		q.timer.Reset(r.opts.ListSilence)
		if item.Err != nil && errors.Is(item.Err, object.ErrWrongKind) {
			return item.Err
		}
		in.Prepare(&item)
		l.items = append(l.items, item)
		r.take(l, &l.items[len(l.items)-1])
		return nil
	})
}

// take makes a listed item ready for the sink.
func (r *Reflector[T]) take(l *listing[T], item *object.Item[T]) {
	switch {
	case item.Err != nil:
		// The lock is not needed to read: only this goroutine changes it.
		l.bad.add(time.Now(), &r.quarantine, item.Key, item.UID, item.Version, item.Err, item.Raw)
		item.Raw = nil
	case item.Held:
		l.held++
	}
}

// finish commits a list, or finds that the server's history began anew.
func (r *Reflector[T]) finish(l *listing[T]) error {
	if l.epoch == r.epoch && r.at.Seen.After(l.version) {
		return r.rewound(l)
	}
	return r.commit(l)
}

// rewound begins a new epoch. The list will do for it if nothing in it was left
// undecoded.
func (r *Reflector[T]) rewound(l *listing[T]) error {
	r.counts.Rewinds++
	r.failed(opOf(r.status.State), Rewind, &RewindError{
		Seen:   r.mark(),
		Listed: l.version,
	})
	if l.held == 0 {
		l.epoch = r.epoch + 1
		return r.commit(l)
	}
	r.relist(listing[T]{epoch: r.epoch + 1, fresh: true, plain: l.plain})
	return nil
}

// commit hands a complete list over. Watching follows.
func (r *Reflector[T]) commit(l *listing[T]) error {
	n := len(l.items)
	r.size = n
	mark := object.Mark{Scope: r.opts.Scope, Epoch: l.epoch, Version: l.version}
	if err := r.replace(&object.List[T]{Mark: mark, Items: l.items}); err != nil {
		return err
	}
	r.at.list(mark.Version)
	r.epoch, r.synced = mark.Epoch, true
	r.trouble.notFound = 0
	r.counts.Lists++
	r.counts.Items += int64(n)
	if r.slot {
		r.slot = false
		r.opts.Budget.release()
	}
	r.logSlowList(l, n)
	bad, unpaged := l.bad, l.unpaged
	r.list = listing[T]{epoch: r.epoch}
	r.enter(Watching, func(s *Status) {
		s.Synced, s.Removed = true, false
		s.Mark, s.Resume, s.LastList = mark, mark.Version, s.Since
		s.Paged, s.Unpaged = r.paged, unpaged
		r.quarantine = bad
		r.publish(s)
	})
	return nil
}

// replace hands the whole state of the scope to the sink.
func (r *Reflector[T]) replace(list *object.List[T]) error {
	return r.sink.Apply(&object.Batch[T]{
		Changes: []object.Change[T]{{Kind: object.Replaced, List: list}},
		Marks:   []object.Mark{list.Mark},
	})
}

// maxRestarts is how often a list is begun anew because a continue token had expired,
// before it is made without pages.
const maxRestarts = 2

// listFailed decides what follows a LIST that failed. before is the number of items
// that had come of earlier pages.
func (r *Reflector[T]) listFailed(opts object.ListOptions, before int, err error) error {
	l := &r.list
	reason := reasonOf(err)
	if reason == Asked {
		return nil // the next step hears it
	}
	e := r.failed("list", reason, err)
	r.countNotFound(reason)
	switch reason {
	case Expired, TooLarge:
		switch {
		case opts.Continue != "":
			if l.restarts++; l.restarts > maxRestarts {
				l.unpaged = fmt.Sprintf("the continue token expired %d times", l.restarts)
			}
		case opts.Version.Known():
			l.latest = true
		default:
			l.again()
			r.backOff(e, r.listState())
			return nil
		}
		l.again()
		r.enter(Listing, func(s *Status) { s.Page = 1; s.Unpaged = l.unpaged })
		return nil
	case NotFound:
		l.again()
		if err := r.removed(); err != nil {
			return err
		}
	case Throttled, Unavailable, Refused, Network, DNS, Silent:
		if opts.Continue == "" {
			l.again()
		} else {
			l.cutBack(before) // and ask for the page again
		}
	default:
		l.again()
	}
	if l.page > 0 {
		r.backOff(e, Listing)
	} else {
		r.backOff(e, r.listState())
	}
	return nil
}

// countNotFound counts the answers that say that there is no such resource.
func (r *Reflector[T]) countNotFound(reason Reason) {
	t := &r.trouble
	switch reason {
	case NotFound:
		if t.notFound++; t.notFound == 1 {
			t.notFoundAt = time.Now()
		}
	case Throttled, Unavailable, Refused, Network, DNS, TLS, Silent:
		// No answer at all, as far as that goes.
	default:
		t.notFound = 0
	}
}

// minNotFound is how many answers it takes to believe that a resource is gone.
const minNotFound = 3

// removed commits an empty list if it is certain enough that the resource is not
// served any more.
func (r *Reflector[T]) removed() error {
	t := &r.trouble
	if !r.synced || r.status.Removed || r.opts.GoneAfter < 0 ||
		t.notFound < minNotFound || time.Since(t.notFoundAt) < r.opts.GoneAfter {
		return nil
	}
	if err := r.replace(&object.List[T]{Mark: r.mark()}); err != nil {
		return err
	}
	r.update(func(s *Status) {
		s.Removed = true
		r.quarantine = quarantine{}
	})
	return nil
}

// opOf names what is done in a state.
func opOf(s State) string {
	switch s {
	case Listing:
		return "list"
	case Streaming:
		return "streaming list"
	}
	return "watch"
}
