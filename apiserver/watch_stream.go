package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/response"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// stream writes the events of one watch.
type stream struct {
	server  *Server
	r       *request.Request
	w       http.ResponseWriter
	watcher *storage.Watcher
	frames  streaming.Encoder
	faults  *streamFaults // faults of this watch
	columns bool          // the next table must include column definitions
	at      uint64        // all events up to this version were sent
}

// serveWatch opens a watch and sends its events until the client, the timeout, a fault or
// the server ends it.
func (s *Server) serveWatch(w http.ResponseWriter, r *request.Request, faults requestFaults) error {
	opts, sel, err := r.ListOptions(s.features)
	if err != nil {
		return err
	}
	if s.codecs.Infos[r.Rep.Encoding].StreamSerializer == nil {
		return apierror.NotAcceptable("only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")
	}
	watcher, start, err := s.storage.Watch(r.Context(), r.Kind, sel, opts, faults[StaleCache].Wait)
	if errors.Is(err, storage.ErrOver) {
		return apierror.NotServed()
	}
	// Errors found by the storage are sent inside the stream.
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	late := apierrors.IsTimeout(err)
	if err != nil && (!expired && !late || s.opts.GoneAsStatus) {
		return err
	}
	timeout := watchTimeout(opts)
	response.LimitWrites(w, timeout+response.WatchGrace)
	w.Header().Set("Content-Type", r.Rep.ContentType(s.codecs, true))
	w.WriteHeader(http.StatusOK)
	info := s.codecs.Infos[r.Rep.Encoding].StreamSerializer
	body := &frameWriter{w: w}
	st := &stream{
		server: s, r: r, w: w, watcher: watcher, columns: true, at: start.Version, faults: &streamFaults{requestFaults: faults, all: &s.faults, body: body, start: r.URL.Path + " " + opts.ResourceVersion},
		frames: streaming.NewEncoder(writeCloser{info.Framer.NewFrameWriter(body)}, info.Serializer),
	}
	if err != nil {
		st.fail(err)
		return nil
	}
	defer watcher.Close()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := st.run(ctx, watcher, start, opts.AllowWatchBookmarks, timeout-lastBookmark); err != nil {
		s.opts.Logger.Debug("watch cut", "uri", r.URL.RequestURI(), "error", err)
		panic(http.ErrAbortHandler) // drop the connection instead of closing it cleanly
	}
	return nil
}

func watchTimeout(opts *internalversion.ListOptions) time.Duration {
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		return time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	return 30*time.Minute + rand.N(30*time.Minute)
}

// lastBookmark is how long before its timeout a watch has its last bookmark, as on kube-apiserver.
const lastBookmark = 2 * time.Second

// run sends events until the watch ends, and a last bookmark after a time that is positive. It returns nil
// for a clean end.
func (st *stream) run(ctx context.Context, w *storage.Watcher, start storage.Start, bookmarks bool, last time.Duration) error {
	if err := st.faults.endIfDue(st); err != nil {
		return ended(err)
	}
	if err := st.initial(w, start); err != nil {
		return ended(err)
	}
	marks := time.NewTicker(st.server.opts.Bookmarks)
	defer marks.Stop()
	var final <-chan time.Time
	if last > 0 {
		timer := time.NewTimer(last)
		defer timer.Stop()
		final = timer.C
	}
	if err := st.flush(); err != nil {
		return ended(err)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil // its time is over, the client disconnected or the server stops
		case <-final:
			marks.Stop()
			err = st.periodic(w, bookmarks)
		case <-marks.C:
			err = st.periodic(w, bookmarks)
		case <-w.Wake:
			err = st.drain(w)
		}
		if err == nil {
			err = st.flush()
		}
		if err != nil {
			return ended(err)
		}
	}
}

// periodic sends pending events and a bookmark, if bookmarks are enabled.
func (st *stream) periodic(w *storage.Watcher, bookmarks bool) error {
	if !bookmarks || st.server.opts.NoBookmarks {
		return nil
	}
	// Other resources may have advanced the version without waking this watch.
	if err := st.drain(w); err != nil {
		return err
	}
	return st.bookmark(false)
}

// ended returns nil if err is a clean end of the watch.
func ended(err error) error {
	if errors.Is(err, storage.ErrOver) {
		return nil
	}
	return err
}

// initial sends the existing objects and the bookmark after them.
func (st *stream) initial(w *storage.Watcher, start storage.Start) error {
	records := slices.DeleteFunc(start.Initial, func(rec *kinds.Record) bool { return !w.Selects(rec) })
	for i, rec := range records {
		if i >= len(records)/2 && st.faults.has(TruncateBody) {
			break
		}
		if err := st.event(storage.Event{Kind: watch.Added, Record: rec}); err != nil {
			return err
		}
	}
	if st.faults.has(TruncateBody) {
		if err := st.flush(); err != nil {
			return err
		}
		return storage.ErrCut
	}
	if start.Mark {
		return st.bookmark(true)
	}
	return nil
}

// drain sends all pending events.
func (st *stream) drain(w *storage.Watcher) error {
	events, version, err := w.Next()
	for _, ev := range events {
		if err := st.event(ev); err != nil {
			return err
		}
	}
	if err == nil {
		st.at = version
	}
	return err
}

// event sends one event and applies faults that are due.
func (st *stream) event(ev storage.Event) error {
	st.faults.beforeEvent()
	st.server.requests.sent(st.r.Kind)
	if err := st.write(ev.Kind, ev.Record); err != nil {
		return err
	}
	return st.faults.afterEvent(st, ev)
}

func (st *stream) write(kind watch.EventType, rec *kinds.Record) error {
	var obj runtime.Object
	switch st.r.Rep.As {
	case "Table":
		obj = st.server.out.Table(st.r, storage.Page{Records: []*kinds.Record{rec}, Version: rec.Version}, st.columns)
		st.columns = false
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		obj = codec.Partial(rec, st.r.Rep.In)
	default:
		raw, err := st.server.codecs.Record(st.r.Kind, st.r.Rep.Encoding, rec)
		if err != nil {
			return err
		}
		return st.frame(string(kind), raw)
	}
	return st.object(string(kind), obj)
}

// object sends an event with an object that is not stored.
func (st *stream) object(kind string, obj runtime.Object) error {
	raw, err := st.server.codecs.Encode(codec.Representation{Encoding: st.r.Rep.Encoding}, obj)
	if err != nil {
		return err
	}
	return st.frame(kind, raw)
}

func (st *stream) frame(kind string, raw []byte) error {
	return st.frames.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
}

// fail sends an ERROR event.
func (st *stream) fail(err error) {
	if st.object(string(watch.Error), response.StatusOf(err)) == nil {
		_ = st.flush() // the watch ends either way
	}
}

// bookmark sends a bookmark at the version up to which all events were sent.
func (st *stream) bookmark(end bool) error {
	if st.faults.has(DropBookmarks) {
		st.faults.used(DropBookmarks)
		return nil
	}
	obj := st.r.Kind.Empty()
	rec := kinds.NewRecord(obj, st.at)
	if end {
		rec.Meta.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	switch st.r.Rep.As {
	case "Table":
		obj = st.server.out.Table(st.r, storage.Page{Records: []*kinds.Record{rec}, Version: st.at}, st.columns)
		st.columns = false
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		obj = codec.Partial(rec, st.r.Rep.In)
	}
	return st.object(string(watch.Bookmark), obj)
}

func (st *stream) flush() error {
	if err := http.NewResponseController(st.w).Flush(); err != nil {
		return fmt.Errorf("sending events: %w", err)
	}
	return nil
}

// frameWriter writes frames. A fault may corrupt the next one.
type frameWriter struct {
	w       io.Writer
	corrupt func([]byte) []byte
}

// Write implements [io.Writer].
func (f *frameWriter) Write(p []byte) (int, error) {
	if f.corrupt != nil {
		if _, err := f.w.Write(f.corrupt(p)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return f.w.Write(p)
}

// writeCloser adds a no-op Close.
type writeCloser struct{ io.Writer }

// Close implements [io.Closer].
func (writeCloser) Close() error { return nil }
