package reflector_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is what the tests mirror. Its value is the message of its status.
type thing = corev1.Pod

type (
	options = reflector.Options[*thing]
	server  = simtest.Server[*thing]
	stream  = simtest.Stream[*thing]
	item    = object.Item[*thing]
	event   = object.Event[*thing]
)

var things = object.Meta[*thing]()

// newServer makes a server with things from version 11 on.
func newServer(keys ...string) *server {
	s := simtest.New[*thing](10)
	for _, k := range keys {
		s.Set(k, value("first"))
	}
	s.Compact()
	return s
}

// value is an edit of a thing.
func value(v string) func(*thing) { return func(o *thing) { o.Status.Message = v } }

func newThing(key string, uid object.UID, version object.Version, v string) *thing {
	k := object.RawKey(key)
	o := &thing{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, UID: uid, ResourceVersion: string(version)}}
	value(v)(o)
	return o
}

func newStream(events ...event) *stream { return simtest.NewStream(events...) }

// fixture is a reflector that runs between a server and a store.
type fixture struct {
	*reflector.Reflector[*thing]
	t      *testing.T
	srv    *server
	buffer *delta.Buffer[*thing]
	store  *store.Store[*thing]

	changes simtest.Recorder // the changes that the store reported
	back    simtest.Recorder // changes to an older version, outside of a list of a new epoch

	mu      sync.Mutex
	errs    []error      // what OnError got
	applied []error      // errors of Apply
	epoch   object.Epoch // of the last list; the consumer's
	runErr  error
	halt    func()
}

// start runs a reflector on the server until the test ends. Waits are not random: the
// first takes 0.8 seconds.
func start(t *testing.T, srv *server, opts options, via ...simtest.Via) *fixture {
	t.Helper()
	r := prepare(t, srv, opts, via...)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.runErr = r.Run(ctx) })
	wg.Go(func() {
		for {
			err := r.buffer.PopBatch(ctx, func(b *object.Batch[*thing]) error { r.apply(b); return nil })
			if err != nil {
				return
			}
		}
	})
	r.halt = sync.OnceFunc(func() {
		cancel()
		r.buffer.Close()
		wg.Wait()
		if s := r.Status(); s.State != reflector.Stopped || s.Connected {
			t.Errorf("at the end: %v", s)
		}
	})
	t.Cleanup(r.halt)
	synctest.Wait()
	return r
}

// prepare makes a fixture whose reflector is not started.
func prepare(t *testing.T, srv *server, opts options, via ...simtest.Via) *fixture {
	t.Helper()
	r := &fixture{t: t, srv: srv}
	r.store = store.Must(store.New(things, store.Options[*thing]{}))
	buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{Held: r.store.Held})
	if err != nil {
		t.Fatal(err)
	}
	r.buffer = buffer
	if opts.Rand == nil {
		opts.Rand = func() float64 { return 0 }
	}
	if opts.Name == "" {
		opts.Name = "things"
	}
	if opts.OnError == nil && opts.Logger == nil {
		opts.OnError = func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, err)
		}
	}
	r.Reflector, err = reflector.New(srv.Source(cmp.Or(append(via, simtest.Protobuf)...)), r.buffer, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *fixture) apply(b *object.Batch[*thing]) {
	afresh := false
	for i := range b.Changes {
		if l := b.Changes[i].List; l != nil && l.Epoch != r.epoch {
			r.epoch, afresh = l.Epoch, true
		}
	}
	changes, err := r.store.Apply(b, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.applied = append(r.applied, err)
	}
	for _, c := range changes {
		current := things.VersionOf(c.New())
		if c.Kind == object.Updated && !afresh && !current.After(things.VersionOf(c.Old())) {
			r.back.Add("%s %s to %s", c.Key, c.Old().ResourceVersion, current)
		}
		r.changes.Add("%s %s@%s%s", c.Kind, c.Key, current, map[bool]string{true: " unknown"}[c.Unknown])
	}
}

// lastErr returns what OnError got last.
func (r *fixture) lastErr() *reflector.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) == 0 {
		return nil
	}
	e, ok := r.errs[len(r.errs)-1].(*reflector.Error)
	if !ok {
		r.t.Errorf("OnError got a %T", r.errs[len(r.errs)-1])
	}
	return e
}

func (r *fixture) state() string {
	snap := r.store.Snapshot()
	defer snap.Release()
	return describe(slices.Collect(snap.Sorted()))
}

// describe returns objects as "key=value@version".
func describe(objs []*thing) string {
	out := make([]string, 0, len(objs))
	for _, o := range objs {
		out = append(out, fmt.Sprintf("%s=%s@%s", simtest.KeyOf(o), o.Status.Message, o.ResourceVersion))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// mirrors checks that the store is what the server is, at its version.
func (r *fixture) mirrors() {
	r.t.Helper()
	synctest.Wait()
	if got, want := r.state(), describe(r.srv.Objects()); got != want {
		r.t.Errorf("store:  %s\nserver: %s", got, want)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.applied...); err != nil {
		r.t.Error(err)
	}
}

// in checks the state.
func (r *fixture) in(want reflector.State) reflector.Status {
	r.t.Helper()
	s := r.Status()
	if s.State != want {
		r.t.Errorf("state is %v (%v), want %v", s.State, s, want)
	}
	return s
}

// live checks that changes arrive and all is well.
func (r *fixture) live() reflector.Status {
	r.t.Helper()
	s := r.in(reflector.Watching)
	if !s.Live() || s.Cause != nil || s.Failing {
		r.t.Errorf("not live: %v (connected %v, failing %v)", s, s.Connected, s.Failing)
	}
	return s
}

// requests checks what was asked of the server since the last call.
func (r *fixture) requests(want ...string) {
	r.t.Helper()
	if got := r.srv.Requests(); !slices.Equal(got, want) {
		r.t.Errorf("requests:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// ended checks how often requests ended for a reason.
func (r *fixture) ended(reason reflector.Reason, want int64) {
	r.t.Helper()
	if got := r.Status().Counts.Ended[reason]; got != want {
		r.t.Errorf("ended %q %d times, want %d", reason, got, want)
	}
}

func (r *fixture) changesAre(want ...string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.changes.Take(); !slices.Equal(got, want) {
		r.t.Errorf("changes:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// plain turns streaming lists off.
func plain(opts options) options {
	opts.Streaming = reflector.StreamingOff
	return opts
}

func bookmark(v object.Version) event {
	return event{Bookmark: true, Item: item{Version: v}}
}
