package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/internal/paging"
	"github.com/tarnproject/tarn/object"
)

// plan is how a list is made. It outlives attempts that fail.
type plan struct {
	fresh  bool // nothing counts as held, so that every object is decoded
	latest bool // ask for the most recent state, because the last version seen was refused; see also Options.Latest
	plain  bool // use LIST even where streaming lists are in use
	// part is what to list of the target shard, because the sink has the rest; nil for all of it.
	part *object.Shard
}

// listed is what an attempt to list has brought so far. Nothing of it reaches the sink before the
// list is complete.
type listed[T any] struct {
	plan
	slot    *Budget // that a slot was taken from; nil without one
	started time.Time
	items   []object.Item[T]
	bad     quarantine // the items that could not be read
	held    int        // the items that were not decoded because the sink holds them
}

// begin takes a slot of the budget, if there is one, before the first request.
func (l *listed[T]) begin(ctx context.Context, r *Reflector[T]) error {
	if b := r.opts.Budget; b != nil && l.slot == nil {
		if err := b.take(ctx); err != nil {
			return err
		}
		l.slot = b
	}
	if l.started.IsZero() {
		l.started = time.Now()
	}
	return nil
}

// leave gives the slot back.
func (l *listed[T]) leave() {
	if l.slot != nil {
		l.slot.release()
		l.slot = nil
	}
}

// add takes an item into the list.
func (l *listed[T]) add(r *Reflector[T], item *object.Item[T]) {
	if l.items == nil && l.part == nil {
		l.items = slices.Grow(l.items, r.size)
	}
	l.items = append(l.items, *item)
	l.count(r, &l.items[len(l.items)-1])
}

// count puts an unreadable item in quarantine, and counts a held one.
func (l *listed[T]) count(r *Reflector[T], item *object.Item[T]) {
	switch {
	case item.Err != nil:
		l.bad.add(time.Now(), &r.quarantine, item.Key, item.UID, item.Version, item.Err, item.Raw)
		item.Raw = nil
	case item.Held:
		l.held++
	}
}

// uncount undoes count for an item that is replaced or removed.
func (l *listed[T]) uncount(item *object.Item[T]) {
	if item.Held {
		l.held--
	}
	if item.Err != nil {
		l.bad.remove(item.Key)
	}
}

// truncate discards the items after the first n.
func (l *listed[T]) truncate(n int) {
	for i := n; i < len(l.items); i++ {
		l.uncount(&l.items[i])
	}
	clear(l.items[n:])
	l.items = l.items[:n]
}

// intake returns how the source prepares the objects of a shard. live says that they come from a
// watch and are not the initial state.
func (r *Reflector[T]) intake(shard object.Shard, held object.Held, live *atomic.Bool) *object.Intake[T] {
	in := &object.Intake[T]{Held: held, Shard: shard, Transform: r.opts.Transform, Accessor: r.opts.Accessor}
	if r.opts.Encoder != nil {
		in.Encoder = r.opts.Encoder(live.Load)
	}
	return in
}

// heldFor returns which objects of a list need not be decoded.
func (r *Reflector[T]) heldFor(p plan) object.Held {
	if p.fresh || p.part != nil || r.rewound() {
		return nil
	}
	return r.sink.Held
}

// atVersion reports whether a list asks for a state not older than the last version seen.
func (r *Reflector[T]) atVersion(p plan) bool {
	return !r.latest(p) && r.at.Seen.Known()
}

// latest reports whether a list asks for the most recent state.
func (r *Reflector[T]) latest(p plan) bool {
	return p.latest || r.rewound() || r.opts.Latest && !r.now.Synced
}

// rewound reports whether the next list begins a new epoch, so that nothing seen before binds it.
func (r *Reflector[T]) rewound() bool { return r.next > r.epoch }

// listing is the state of reading a LIST, page by page.
type listing[T any] struct {
	listed[T]
	pager paging.Pager
}

func (l *listing[T]) show(s *Status) { s.State, s.Page = Listing, l.pager.Pages+1 }

// step reads one page.
func (l *listing[T]) step(ctx context.Context, r *Reflector[T]) (state[T], error) {
	if l.part != nil && l.part.IsEmpty() {
		return r.finishPart(&l.listed)
	}
	if err := l.begin(ctx, r); err != nil {
		return nil, err
	}
	if l.part != nil && r.partIsOld() { // now, and not before the wait for a slot
		return r.list(plan{}), nil
	}
	opts := l.pager.Request(r.firstPage(l.plan))
	before := len(l.items)
	page, err := l.read(ctx, r, opts)
	last := false
	if err == nil {
		last, err = l.pager.Read(page)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil && l.part != nil && page.Version != r.at.Complete:
		return r.list(plan{}), nil // the server does not list an exact version
	case err != nil:
		return l.failed(r, opts, before, err)
	}
	r.now.Counts.Pages++
	if page.Sharded {
		r.now.Sharding = ShardingServer
	}
	if last && l.part != nil {
		return r.finishPart(&l.listed)
	}
	if last {
		r.now.Unpaged = l.unpaged()
		return r.finish(&l.listed, l.pager.Version, &watching[T]{})
	}
	if opts.Version == "0" {
		r.now.Paged = true
	}
	l.items = slices.Grow(l.items, int(min(max(page.Remaining, 0), maxGrow)))
	return l, nil
}

// maxGrow bounds the room that is made for the items that a server announces.
const maxGrow = 1 << 16

// firstPage returns the request for the first page of a LIST.
func (r *Reflector[T]) firstPage(p plan) object.ListOptions {
	opts := object.ListOptions{Selection: r.selection(r.target), Limit: max(r.opts.PageSize, 0)}
	switch {
	case p.part != nil:
		opts.Selection = r.selection(*p.part)
		opts.Version, opts.Match = r.at.Complete, object.Exact
	case r.atVersion(p):
		opts.Version, opts.Match = r.at.Seen, object.NotOlderThan
		if !r.now.Paged { // the server answers from its cache, without pages (L04)
			opts.Limit = 0
		}
	case !r.now.Synced && !r.latest(p):
		opts.Version = "0"
	}
	return opts
}

// unpaged says why the list is made without pages; empty if it is not.
func (l *listing[T]) unpaged() string {
	if !l.pager.Unlimited() {
		return ""
	}
	return fmt.Sprintf("the continue token expired %d times", l.pager.Restarts)
}

// read adds the items of a page to the list.
func (l *listing[T]) read(ctx context.Context, r *Reflector[T], opts object.ListOptions) (page object.Page, err error) {
	q := r.request(ctx)
	q.watchdog.Reset(r.opts.ListSilence)
	defer func() { err = q.end(err) }()
	in := r.intake(opts.Shard, r.heldFor(l.plan), new(atomic.Bool))
	return r.src.List(q.ctx, opts, in, func(item object.Item[T]) error {
		q.watchdog.Reset(r.opts.ListSilence)
		if item.Err != nil && errors.Is(item.Err, object.ErrWrongKind) {
			return item.Err
		}
		if in.Prepare(&item); item.Outside {
			r.outside()
			return nil
		}
		l.add(r, &item)
		return nil
	})
}

// failed returns what follows a page that could not be read. before is the number of items from
// earlier pages.
func (l *listing[T]) failed(r *Reflector[T], opts object.ListOptions, before int, err error) (state[T], error) {
	reason := reasonOf(err)
	if reason == Requested {
		return l, nil // the next step handles it
	}
	e := r.failed("list", reason, err)
	again := &listing[T]{listed: listed[T]{plan: l.plan}, pager: paging.Pager{Restarts: l.pager.Restarts}}
	switch reason {
	case NotFound:
		r.failures.notFound.add()
		if err := r.removed(); err != nil {
			return nil, err
		}
	case Throttled, Unavailable, Refused, Network, DNS, TLS, Silent:
		// These say nothing about whether the resource exists.
	default:
		r.failures.notFound = streak{}
	}
	switch {
	case l.part == nil:
	case r.now.Removed:
		return r.backOff(e, r.list(plan{})), nil
	case reason == Expired, reason == TooLarge, reason == Rejected:
		return r.relist(e, plan{}), nil
	}
	switch reason {
	case Expired, TooLarge:
		switch {
		case opts.Continue != "":
			again.pager.Restart()
			r.now.Unpaged = again.unpaged()
			return again, nil
		case opts.Version.Known():
			again.latest = true
			return again, nil
		}
	case Throttled, Unavailable, Refused, Network, DNS, Silent:
		if opts.Continue != "" {
			l.truncate(before)
			return r.backOff(e, l), nil // and then ask for the same page
		}
	}
	return r.backOff(e, again), nil
}

// minNotFound is how many 404 answers to LIST it takes to conclude that a resource was removed.
const minNotFound = 3

// removed commits an empty list if the resource is no longer served.
func (r *Reflector[T]) removed() error {
	f := &r.failures.notFound
	if !r.now.Synced || r.now.Removed || r.opts.RemovedAfter < 0 ||
		f.n < minNotFound || time.Since(f.since) < r.opts.RemovedAfter {
		return nil
	}
	if err := r.replace(&object.List[T]{Mark: r.mark()}); err != nil {
		return err
	}
	r.now.Removed = true
	r.setQuarantine(quarantine{})
	return nil
}

// finish commits a complete list, which next follows, or finds that the server's history was
// restored from a backup (W19): its version is before one already seen. A list that left nothing
// undecoded then begins the new epoch itself; otherwise another one does.
func (r *Reflector[T]) finish(l *listed[T], version object.Version, next state[T]) (state[T], error) {
	if !r.rewound() && r.at.Seen.After(version) {
		r.next++
		r.now.Counts.Rewinds++
		r.failed(opOf(r.now.State), Rewind, fmt.Errorf(
			"the server's version went back from %s to %s, as after a restore from a backup; everything is listed and decoded again", r.at.Seen, version))
		if l.held > 0 {
			return r.list(plan{plain: l.plain}), nil
		}
	}
	mark := object.Mark{Scope: r.opts.Scope, Epoch: r.next, Version: version, Shard: r.target}
	if err := r.replace(&object.List[T]{Mark: mark, Items: l.items}); err != nil {
		return nil, err
	}
	r.at, r.epoch, r.shard = reach{progress: progressTo(version)}, r.next, r.target
	r.size, r.parts, r.current = len(l.items), 0, l.started
	r.failures.notFound = streak{}
	r.now.Synced, r.now.Removed, r.now.LastList = true, false, time.Now()
	r.now.Counts.Lists++
	r.now.Counts.Items += int64(r.size)
	r.setQuarantine(l.bad)
	if took := time.Since(l.started); took > r.opts.SlowList {
		r.opts.Logger.Warn("slow list", "took", took, "pages", r.now.Page, "items", r.size,
			slog.Bool("streaming", r.now.State == Streaming))
	}
	return next, nil
}

// replace hands the whole state of the scope to the sink.
func (r *Reflector[T]) replace(list *object.List[T]) error {
	return r.sink.Apply(&object.Batch[T]{
		Changes: []object.Change[T]{{Kind: object.Replaced, List: list}},
		Marks:   []object.Mark{list.Mark},
	})
}
