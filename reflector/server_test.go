package reflector_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// thing is what the tests mirror.
type thing struct {
	key     object.Key
	uid     object.UID
	version object.Version
	value   string
}

var things = object.Accessor[*thing]{
	Key:     func(o *thing) (object.Key, error) { return o.key, nil },
	UID:     func(o *thing) object.UID { return o.uid },
	Version: func(o *thing) object.Version { return o.version },
}

type (
	item  = object.Item[*thing]
	event = object.Event[*thing]
)

func keyOf(s string) object.Key { return object.RawKey(s) }

func itemOf(o *thing) item {
	it, _ := object.ItemOf(things, o)
	return it
}

// server is a naive API server: the state, and every change since the last compaction.
// It answers list and watch as a real one does, unless onList or onWatch answer first.
type server struct {
	mu        sync.Mutex
	version   int
	objects   map[object.Key]*thing
	history   []change
	compacted int // watches begin here or later
	streams   []*pipe
	requests  []string
	decoded   int // items that were not left undecoded
	timeouts  []string

	// streams lists on request; else refuses them with 400.
	canStream bool
	// any is what a list of "0" ignores the limit for.
	ignoreLimitFor string

	// onList and onWatch answer the nth request of their kind, from 1 on, if they
	// return true.
	onList  func(n int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool)
	onWatch func(n int, opts object.WatchOptions) (object.Stream[*thing], error, bool)
	lists   int
	watches int
}

type change struct {
	version int
	event   event
}

func newServer(keys ...string) *server {
	s := &server{version: 10, objects: map[object.Key]*thing{}, canStream: false, ignoreLimitFor: "0"}
	for _, k := range keys {
		s.put(k, "first")
	}
	s.compact()
	return s
}

func (s *server) now() object.Version { return object.Version(strconv.Itoa(s.version)) }

// set changes how the server answers.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// made returns how many lists and watches were asked for, and how many items decoded.
func (s *server) made() (lists, watches, decoded int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches, s.decoded
}

// put creates or changes an object.
func (s *server) put(key, value string) *thing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	k := keyOf(key)
	o := &thing{key: k, uid: object.UID(fmt.Sprintf("u%d", s.version)), version: s.now(), value: value}
	t := object.Added
	if old := s.objects[k]; old != nil {
		o.uid, t = old.uid, object.Updated
	}
	s.objects[k] = o
	s.tell(event{Kind: t, Item: itemOf(o)})
	return o
}

// remove deletes an object.
func (s *server) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := *s.objects[keyOf(key)]
	o.version = s.now()
	delete(s.objects, o.key)
	s.tell(event{Kind: object.Deleted, Item: itemOf(&o)})
}

func (s *server) tell(ev event) {
	s.history = append(s.history, change{s.version, ev})
	for _, p := range s.streams {
		p.send(ev)
	}
}

// compact forgets the history.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.history = s.version, nil
}

// cut ends all streams with an error.
func (s *server) cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.streams {
		p.fail(err)
	}
	s.streams = nil
}

// stream returns the newest open stream.
func (s *server) stream() *pipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[len(s.streams)-1]
}

// asked returns the requests since the last call.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

// state returns the objects as "key=value@version", sorted.
func (s *server) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return describe(slices.Collect(maps.Values(s.objects)))
}

func describe(objs []*thing) string {
	out := make([]string, 0, len(objs))
	for _, o := range objs {
		out = append(out, fmt.Sprintf("%s=%s@%s", o.key, o.value, o.version))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *server) List(ctx context.Context, opts object.ListOptions, in *object.Intake[*thing], sink func(item) error) (object.Page, error) {
	s.mu.Lock()
	s.lists++
	n := s.lists
	req := "LIST "
	if opts.Continue != "" {
		req += "continue=" + opts.Continue
		if opts.Version != "" || opts.Match != "" {
			req += " with a version"
		}
	} else {
		req += fmt.Sprintf("%q", string(opts.Version))
	}
	if opts.Match != "" {
		req += " " + string(opts.Match)
	}
	if opts.Limit > 0 {
		req += fmt.Sprintf(" limit=%d", opts.Limit)
	}
	if in.Held == nil {
		req += " afresh"
	}
	s.requests = append(s.requests, req)
	on := s.onList
	s.mu.Unlock()
	if on != nil {
		if page, err, ok := on(n, opts, sink); ok {
			return page, err
		}
	}
	return s.list(opts, in, sink)
}

// list answers a list. A continue token is the number of items before it and the version.
func (s *server) list(opts object.ListOptions, in *object.Intake[*thing], sink func(item) error) (object.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, err := strconv.Atoi(string(opts.Version)); err == nil && v > s.version {
		return object.Page{}, tooLarge(v, s.version)
	}
	keys := slices.SortedFunc(maps.Keys(s.objects), object.Key.Compare)
	from := 0
	if opts.Continue != "" {
		fmt.Sscanf(opts.Continue, "c%d", &from)
	}
	limit := int(opts.Limit)
	if limit == 0 || opts.Continue == "" && s.ignoreLimitFor == string(opts.Version) {
		limit = len(keys)
	}
	page := object.Page{Version: s.now()}
	for i := from; i < len(keys) && i < from+limit; i++ {
		it := itemOf(s.objects[keys[i]])
		if in.Holds(it.Key, it.UID, it.Version) {
			it.Object, it.Held = nil, true
		} else {
			s.decoded++
		}
		if err := sink(it); err != nil {
			return object.Page{}, err
		}
	}
	if from+limit < len(keys) {
		page.Continue = fmt.Sprintf("c%d", from+limit)
	}
	return page, nil
}

func (s *server) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[*thing]) (object.Stream[*thing], error) {
	s.mu.Lock()
	s.watches++
	n := s.watches
	req := "WATCH"
	if opts.InitialEvents {
		req = "STREAM"
	}
	req += fmt.Sprintf(" %q", string(opts.Version))
	if opts.Match != "" {
		req += " " + string(opts.Match)
	}
	if !opts.Bookmarks {
		req += " without bookmarks"
	}
	s.requests = append(s.requests, req)
	s.timeouts = append(s.timeouts, opts.Timeout.String())
	on := s.onWatch
	s.mu.Unlock()
	if on != nil {
		if st, err, ok := on(n, opts); ok {
			return st, err
		}
	}
	return s.watch(opts, in)
}

func (s *server) watch(opts object.WatchOptions, in *object.Intake[*thing]) (object.Stream[*thing], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.InitialEvents && !s.canStream {
		return nil, apierrors.NewBadRequest("sendInitialEvents is forbidden")
	}
	p := newPipe()
	from, err := strconv.Atoi(string(opts.Version))
	switch {
	case err == nil && from > s.version:
		return nil, tooLarge(from, s.version)
	case opts.InitialEvents:
		for _, k := range slices.SortedFunc(maps.Keys(s.objects), object.Key.Compare) {
			it := itemOf(s.objects[k])
			if in.Holds(it.Key, it.UID, it.Version) {
				it.Object, it.Held = nil, true
			}
			p.send(event{Kind: object.Added, Item: it})
		}
		p.send(event{Bookmark: true, Item: item{Version: s.now()}, InitialEnd: true})
	case err == nil && from < s.compacted:
		return nil, apierrors.NewResourceExpired("too old resource version")
	case err == nil:
		for _, c := range s.history {
			if c.version > from {
				p.send(c.event)
			}
		}
	}
	s.streams = append(s.streams, p)
	return p, nil
}

func tooLarge(want, have int) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// pipe is a stream that tests write to.
type pipe struct {
	mu     sync.Mutex
	queue  []event
	err    error
	ready  chan struct{} // has room for one
	closed chan struct{}
	once   sync.Once
}

func newPipe(events ...event) *pipe {
	p := &pipe{ready: make(chan struct{}, 1), closed: make(chan struct{})}
	p.send(events...)
	return p
}

func (p *pipe) send(events ...event) {
	p.mu.Lock()
	p.queue = append(p.queue, events...)
	p.mu.Unlock()
	p.wake()
}

// fail ends the pipe after what has been sent.
func (p *pipe) fail(err error) *pipe {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	p.wake()
	return p
}

func (p *pipe) wake() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *pipe) Next() ([]event, error) {
	for {
		p.mu.Lock()
		events, err := p.queue, p.err
		p.queue = nil
		p.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-p.ready:
		case <-p.closed:
			return nil, io.ErrClosedPipe
		}
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

var _ reflector.Source[*thing] = (*server)(nil)
