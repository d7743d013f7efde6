package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/object"
)

// Server is the source that a [Source] puts the log before, as reflector.Source describes it.
type Server[T any] interface {
	// List lists a page.
	List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error)
	// Watch opens a watch.
	Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error)
}

// Source lets a mirror begin with the state in its log. It answers the first streaming list of each scope: it sends
// the objects of the log as the initial events, then what a watch from their version brings, and the bookmark that ends
// the initial events when it is proven that the mirror has everything that the server had after the start. To the
// reflector, the store and all subscribers that is a list.
//
// The proof is a version that the server had after the start, from a list of one object. If that is the version of the
// state, it is proven at once. Otherwise an event or a bookmark of the watch reaches it; a watch with a timeout of
// three seconds brings a bookmark within about a second. Where that does not happen, the metadata of all objects is
// compared.
//
// If the state cannot be continued, the mirror lists. Objects that the list has in the version of the state are
// taken from there and not decoded. Rejected: a state of the reflector for this. All stages after it would need to know
// of objects that are not proven yet.
type Source[T any] struct {
	server Server[T]
	log    *Log
	opts   MirrorOptions[T]

	loading chan struct{} // has room for one token, which the goroutine that may write loaded has
	loaded  bool

	mu     sync.Mutex                // guards all below
	bases  map[object.Scope]*base[T] // of the scopes without a complete list
	status Resumption
}

// Resumption is how a mirror began. The zero Resumption is before the log was read.
type Resumption struct {
	// From is until when the state in the log was current, and Objects how many it has; zero if there is none
	// that can be continued.
	From    time.Time
	Objects int
	// Resumed is how many scopes continued it, and Proven when the last of them was proven.
	Resumed int
	Proven  time.Time
	// Refused is why the last scope that did not was listed; nil if there is none.
	Refused error
}

// Report is what the journal of a mirror does, and how the mirror began.
type Report struct {
	Status
	Resumption
}

// String returns for example "continued 7 objects, 4s old" or why not.
func (r Resumption) String() string {
	switch {
	case r.Refused != nil:
		return r.Refused.Error()
	case r.Resumed > 0:
		return fmt.Sprintf("continued %d objects, %v old", r.Objects, r.Proven.Sub(r.From).Round(time.Millisecond))
	case !r.From.IsZero():
		return fmt.Sprintf("%d objects as of %s wait for a proof", r.Objects, r.From.Format(time.RFC3339))
	}
	return "not read yet"
}

// The reasons for a list besides those of [Log.Load].
var (
	errRewound   = errors.New("journal: the state is of a history that the server does not have: it was restored from a backup")
	errUnordered = errors.New("journal: the server's versions have no order")
	errPartial   = errors.New("journal: the mirror could not read all objects; perhaps it can now")
	errUnproven  = errors.New("journal: the server sent no bookmark, and has other objects")
	errNoStream  = errors.New("journal: streaming lists are turned off")
)

// NewSource returns the source that begins with a log and continues with the server.
func NewSource[T any](server Server[T], log *Log, opts MirrorOptions[T]) *Source[T] {
	return &Source[T]{server: server, log: log, opts: opts, loading: make(chan struct{}, 1)}
}

// Resumption returns how the mirror began.
func (s *Source[T]) Resumption() Resumption {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// List lists from the server. Objects that the log has are not decoded.
func (s *Source[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	if in == nil || in.Held == nil {
		return s.server.List(ctx, opts, in, sink)
	}
	if err := s.load(ctx, in, errNoStream); err != nil {
		return object.Page{}, err
	}
	b := s.base(object.Scope(opts.Namespace))
	if b == nil {
		return s.server.List(ctx, opts, in, sink)
	}
	page, err := s.server.List(ctx, opts, b.held(in), func(item object.Item[T]) error {
		b.fill(&item)
		return sink(item)
	})
	if err == nil && page.Continue == "" {
		s.done(b)
	}
	return page, err
}

// Watch opens a watch of the server, or continues the state in the log.
func (s *Source[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	if !opts.InitialEvents || in == nil || in.Held == nil {
		s.done(s.base(object.Scope(opts.Namespace))) // it has a list, or must not rely on the state
		return s.server.Watch(ctx, opts, in)
	}
	if err := s.load(ctx, in, nil); err != nil {
		return nil, err
	}
	b := s.base(object.Scope(opts.Namespace))
	if b == nil {
		return s.server.Watch(ctx, opts, in)
	}
	if !b.refused {
		if stream, err := s.resume(ctx, b, opts, in); stream != nil || err != nil {
			return stream, err
		}
		if b = s.base(b.scope); b == nil {
			return s.server.Watch(ctx, opts, in)
		}
	}
	stream, err := s.server.Watch(ctx, opts, b.held(in))
	if err != nil {
		return nil, err
	}
	return &filling[T]{Stream: stream, source: s, base: b}, nil
}

// base returns the state of a scope that has no complete list; nil if there is none.
func (s *Source[T]) base(scope object.Scope) *base[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bases[scope]
}

// done frees the state of a scope. b may be nil.
func (s *Source[T]) done(b *base[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b != nil && s.bases[b.scope] == b {
		delete(s.bases, b.scope)
	}
}

// proven frees the state of a scope, which was continued.
func (s *Source[T]) proven(b *base[T]) {
	s.done(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Resumed++
	s.status.Proven = time.Now()
}

// refuse has a scope list. Its state still has the objects that the list need not decode.
func (s *Source[T]) refuse(b *base[T], cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Refused = cause
	if b != nil {
		b.refused = true
	}
}

// latest returns a version that the server has now. It asks without selectors, with which the server might have to
// search for the first object.
func (s *Source[T]) latest(ctx context.Context, namespace string) (object.Version, error) {
	opts := object.ListOptions{Selection: object.Selection{Namespace: namespace}, Limit: 1}
	page, err := s.server.List(ctx, opts, nil, func(object.Item[T]) error { return nil })
	return page.Version, err
}

// proofTimeout is the timeout of a watch that is opened for a bookmark. kube-apiserver sends one two seconds before it
// ends a watch.
const proofTimeout = 3 * time.Second

// resume returns a stream that continues a state; nil if that is not possible.
func (s *Source[T]) resume(ctx context.Context, b *base[T], opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	if is, wants := b.mark.Shard, opts.Shard.Selector(); is != wants {
		s.refuse(b, &MismatchError{What: "shard", State: is, Mirror: wants})
		return nil, nil
	}
	if !b.mark.Version.Ordered() || !b.target.Ordered() {
		s.refuse(b, errUnordered)
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &resumed[T]{source: s, base: b, in: in, opts: opts, ctx: ctx, cancel: cancel, target: b.target, seen: b.mark.Version, complete: b.mark.Version}
	r.opts.InitialEvents, r.opts.Match, r.opts.Timeout = false, "", proofTimeout
	if !r.reached() {
		if err := r.open(); err != nil {
			cancel()
			if expired(err) {
				s.refuse(b, gone(err))
				return nil, nil
			}
			return nil, err
		}
	}
	return r, nil
}

// rewound refuses all states, which are of another history of the server, and deletes them.
func (s *Source[T]) rewound() {
	s.mu.Lock()
	s.bases, s.status.Refused = nil, errRewound
	s.mu.Unlock()
	if s.log.journal.acquire() == nil {
		s.log.discard()
	}
}

func gone(cause error) error {
	return fmt.Errorf("journal: the server does not have the changes since the state any more: %w", cause)
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// resumed is a stream of the objects of a state and of what followed. Only one goroutine calls Next.
type resumed[T any] struct {
	source *Source[T]
	base   *base[T]
	in     *object.Intake[T]
	opts   object.WatchOptions // of the watch; its Version is set when it is opened
	ctx    context.Context     // of all watches; Close cancels it
	cancel context.CancelFunc

	sent           int // of the state
	watches        int
	target         object.Version
	seen, complete object.Version // as in the reflector: deletions may share a version
	ended          bool           // the initial events have
	events         []object.Event[T]

	mu     sync.Mutex // guards all below
	closed bool
	under  object.Stream[T]
}

// open opens a watch from where the last one ended.
func (r *resumed[T]) open() error {
	r.watches++
	r.opts.Version = r.complete
	under, err := r.source.server.Watch(r.ctx, r.opts, r.in)
	if err != nil {
		return err
	}
	r.swap(under)
	return nil
}

// swap closes the watch and takes another, which may be nil.
func (r *resumed[T]) swap(next object.Stream[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under != nil {
		_ = r.under.Close()
	}
	if r.under = next; r.closed && next != nil {
		_ = next.Close()
	}
}

// chunk is how many objects of a state are sent at once.
const chunk = 1024

// maxWatches is how many watches may end without a proof.
const maxWatches = 2

// Next implements [object.Stream].
func (r *resumed[T]) Next() ([]object.Event[T], error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	r.events = r.events[:0]
	if rest := r.base.items[r.sent:]; len(rest) > 0 {
		rest = rest[:min(len(rest), chunk)]
		r.sent += len(rest)
		for i := range rest {
			r.events = append(r.events, object.Event[T]{Kind: object.Added, Item: rest[i]})
		}
		return r.events, nil
	}
	if !r.ended && r.reached() {
		return r.end(), nil
	}
	if r.under == nil {
		return nil, io.EOF // the next watch begins where the state ends
	}
	events, err := r.under.Next()
	switch {
	case err == nil:
		return r.prove(events), nil
	case err != io.EOF || r.ended:
		return nil, err
	case r.watches < maxWatches:
		if err := r.open(); err != nil {
			return nil, err
		}
		return r.Next()
	}
	switch same, err := r.compare(); {
	case err != nil:
		return nil, err
	case !same:
		r.source.refuse(r.base, errUnproven)
		return nil, io.EOF
	}
	r.swap(nil)
	return r.end(), nil
}

func (r *resumed[T]) reached() bool { return r.target.NotAfter(r.complete) }

// end returns the bookmark that ends the initial events.
func (r *resumed[T]) end() []object.Event[T] {
	r.ended = true
	r.source.proven(r.base)
	r.base = &base[T]{} // frees the objects
	r.sent = 0
	return append(r.events, object.Event[T]{Bookmark: true, InitialEnd: true, Item: object.Item[T]{Version: r.complete}})
}

// prove inserts the bookmark that ends the initial events after the event that proves the state.
func (r *resumed[T]) prove(events []object.Event[T]) []object.Event[T] {
	if r.ended {
		return events
	}
	for i := range events {
		ev := &events[i]
		r.events = append(r.events, *ev)
		switch v := ev.Item.Version; {
		case ev.Err != nil && expired(ev.Err):
			r.source.refuse(r.base, gone(ev.Err))
		case ev.Bookmark && r.seen.NotAfter(v):
			r.seen, r.complete = v, v
		case ev.Kind != 0 && v.After(r.seen):
			r.complete = v
			if ev.Kind == object.Deleted {
				r.complete = r.seen
			}
			r.seen = v
		}
		if r.reached() {
			return append(r.end(), events[i+1:]...)
		}
	}
	return r.events
}

// compare compares the state with the metadata of what the server has. If they are the same, the state is complete up to the
// version of that list.
func (r *resumed[T]) compare() (same bool, err error) {
	if r.source.opts.Identities == nil || r.seen != r.base.mark.Version {
		return false, nil
	}
	same, n := true, 0
	opts := object.ListOptions{Selection: r.opts.Selection, Limit: 500}
	for {
		page, err := r.source.opts.Identities(r.ctx, opts, func(k object.Key, uid object.UID, v object.Version) error {
			n++
			same = same && r.base.has(k, uid, v)
			return nil
		})
		if err != nil || !same {
			return false, err
		}
		if opts.Continue == "" {
			r.complete = page.Version
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return n == len(r.base.items), nil
		}
	}
}

// Close implements [object.Stream].
func (r *resumed[T]) Close() error {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.under == nil {
		return nil
	}
	return r.under.Close()
}

// filling is a streaming list of which some objects are taken from a state.
type filling[T any] struct {
	object.Stream[T]
	source *Source[T]
	base   *base[T] // nil after the initial events
}

// Next implements [object.Stream].
func (f *filling[T]) Next() ([]object.Event[T], error) {
	events, err := f.Stream.Next()
	for i := 0; f.base != nil && i < len(events); i++ {
		if f.base.fill(&events[i].Item); events[i].InitialEnd {
			f.source.done(f.base)
			f.base = nil
		}
	}
	return events, err
}
