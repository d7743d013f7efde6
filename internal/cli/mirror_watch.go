package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

const (
	// watchMost is the maximum number of open event streams.
	watchMost = 100
	// watchPause is the least time between two sends to one client.
	watchPause = 100 * time.Millisecond
	// keepAlive is the longest time without a send.
	keepAlive = 15 * time.Second
	// writeTime is how long a client may take to receive one event.
	writeTime = 30 * time.Second
	// resumeFor and resumeMost limit for how long, and how many of, the snapshots that clients
	// have received are kept.
	resumeFor  = time.Minute
	resumeMost = 64
)

// heldSnapshot is what a client has. Several clients may resume from the same one.
type heldSnapshot struct {
	store.Snapshot[*unstructured.Unstructured]
	// users and until are guarded by resumable.mu. The last user releases the snapshot.
	users int
	until time.Time
}

// resumable keeps the snapshots that clients of a mirror may resume from.
type resumable struct {
	mu   sync.Mutex // guards kept, and users and until of all snapshots
	kept []*heldSnapshot
}

// take returns the snapshot of a version, or nil. The caller must drop it.
func (r *resumable) take(version object.Version) *heldSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.kept {
		if h.Version() == version {
			h.users++
			return h
		}
	}
	return nil
}

// drop ends the use of a snapshot.
func (r *resumable) drop(h *heldSnapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.users--; h.users == 0 {
		h.Release()
	}
}

// keep keeps a snapshot for a while, in addition to its present use.
func (r *resumable) keep(h *heldSnapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.kept, func(have *heldSnapshot) bool { return have.Version() == h.Version() })
	// Snapshots of one version may differ in deletions. Resuming from the older one repeats
	// some; resuming from the newer one would miss some.
	if i >= 0 && r.kept[i].Revision() > h.Revision() {
		r.forget(r.kept[i])
		i = -1
	}
	if i >= 0 {
		h = r.kept[i]
	} else {
		if len(r.kept) == resumeMost {
			r.forget(r.kept[0])
		}
		h.users++
		r.kept = append(r.kept, h)
	}
	h.until = time.Now().Add(resumeFor)
	time.AfterFunc(resumeFor, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !time.Now().Before(h.until) {
			r.forget(h)
		}
	})
}

// forget ends what keep began. The caller must hold the lock.
func (r *resumable) forget(h *heldSnapshot) {
	i := slices.Index(r.kept, h)
	if i < 0 {
		return
	}
	r.kept = slices.Delete(r.kept, i, i+1)
	if h.users--; h.users == 0 {
		h.Release()
	}
}

// eventStream sends one client the objects of a mirror and then every change, as server-sent
// events.
//
// It holds the snapshot that the client has, and sends the difference to the present one when
// the mirror changes. So no event is ever queued: a slow client receives the latest state of what
// changed, and costs one version of each object at most. The resource version is the id of the
// BOOKMARK that ends a difference, not of each event, because the events of a difference have no
// order: a client that loses its connection in the middle resumes from the difference's start.
type eventStream struct {
	w     http.ResponseWriter
	m     *mirrored
	match func(*unstructured.Unstructured) bool
	known *heldSnapshot // nil for a new client
	sent  object.Version
}

// watch serves an event stream until the client leaves or the server shuts down.
func (s *mirrorService) watch(w http.ResponseWriter, req *http.Request, m *mirrored) {
	query := req.URL.Query()
	for name := range query {
		if name != "watch" && name != "namespace" && name != "labelSelector" {
			problem(w, http.StatusBadRequest, "watch can be combined with namespace and labelSelector, not with %s", name)
			return
		}
	}
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		problem(w, http.StatusBadRequest, "invalid label selector %q: %s", query.Get("labelSelector"), oneLine(err.Error()))
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusTooManyRequests, "%d clients are watching already", watchMost)
		return
	}
	changed := make(chan struct{}, 1)
	sub, err := m.handle.SubscribeBatch(func(context.Context, []informer.Event[*unstructured.Unstructured]) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}, informer.SubOptions[*unstructured.Unstructured]{Name: "watch of " + req.RemoteAddr, FromNow: true})
	if err != nil {
		problem(w, http.StatusServiceUnavailable, "the mirror of %s has stopped", m.Name())
		return
	}
	defer sub.Remove()
	w.Header().Set("Content-Type", "text/event-stream")
	if req.Method == http.MethodHead {
		return
	}
	// The server's limit is for requests, and this one is complete.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})

	st := &eventStream{w: w, m: m}
	namespace := query.Get("namespace")
	st.match = func(obj *unstructured.Unstructured) bool {
		return (namespace == "" || obj.GetNamespace() == namespace) && selector.Matches(labels.Set(obj.GetLabels()))
	}
	last := object.Version(req.Header.Get("Last-Event-ID"))
	if last != "" {
		if st.known = m.resumable.take(last); st.known == nil && st.write("event: RESET\ndata: {}\n\n") != nil {
			return
		}
	}
	st.run(req.Context(), changed)
}

func (st *eventStream) run(ctx context.Context, changed <-chan struct{}) {
	defer func() {
		if st.known != nil {
			st.m.resumable.keep(st.known) // its client may have had it for long
			st.m.resumable.drop(st.known)
		}
	}()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for st.send() == nil {
		// What changes during the pause is sent together.
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// send sends the difference between what the client has and the present state. Without one it
// sends a comment, which shows whether the client is still there.
func (st *eventStream) send() error {
	next := &heldSnapshot{Snapshot: st.m.handle.Snapshot(), users: 1}
	var from store.Snapshot[*unstructured.Unstructured]
	if st.known != nil {
		from = st.known.Snapshot
	}
	for c := range store.Diff(from, next.Snapshot) {
		if err := st.event(c); err != nil {
			st.m.resumable.drop(next)
			return err
		}
	}
	end := ": keep-alive\n\n"
	if version := next.Version(); version != st.sent {
		st.sent = version
		st.m.resumable.keep(next)
		end = fmt.Sprintf("event: BOOKMARK\nid: %s\ndata: {\"type\":\"BOOKMARK\",\"version\":%s}\n\n", plain(string(version)), jsonString(string(version)))
	}
	err := st.write(end)
	if err == nil {
		err = http.NewResponseController(st.w).Flush()
	}
	if err != nil {
		st.m.resumable.drop(next)
		return err
	}
	if st.known != nil {
		st.m.resumable.drop(st.known)
	}
	st.known = next
	return nil
}

// event sends a change as far as it concerns the client's selection.
func (st *eventStream) event(c object.Change[*unstructured.Unstructured]) error {
	h := objectChange{kind: c.Kind, obj: c.New()}
	had := c.Kind != object.Added && st.match(c.Old())
	has := c.Kind != object.Deleted && st.match(h.obj)
	switch {
	case !had && !has:
		return nil
	case !had:
		h.kind = object.Added
	case !has:
		h.kind = object.Deleted
	}
	data, err := jsonText(jsonLine{Type: h.eventType(), Object: h.obj.Object})
	if err != nil {
		return err
	}
	return st.write("event: " + h.eventType() + "\ndata: " + data + "\n\n")
}

func (st *eventStream) write(text string) error {
	if err := http.NewResponseController(st.w).SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := st.w.Write([]byte(text))
	return err
}
