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
	r       *request
	w       http.ResponseWriter
	watcher *watcher
	frames  streaming.Encoder
	strikes *streamFaults // what goes wrong in it
	columns bool          // a table still has to name its columns
	at      uint64        // everything up to this version has been told
}

// serveWatch opens a watch and writes its events until the client, the timeout, a fault
// or the server ends it.
func (s *Server) serveWatch(w http.ResponseWriter, r *request, strikes strikes) error {
	opts, sel, err := s.listOptions(r, r.URL.Query())
	if err != nil {
		return err
	}
	if s.codecs.infos[r.rep.form].StreamSerializer == nil {
		return notAcceptable("only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")
	}
	watcher, start, err := s.storage.watch(r.Context(), r.kind, sel, opts)
	if errors.Is(err, errOver) {
		return notServed()
	}
	// What only the storage finds out is told inside the stream.
	gone := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	late := apierrors.IsTimeout(err)
	if err != nil && (!gone && !late || s.opts.GoneAsStatus) {
		return err
	}
	timeout := s.watchTimeout(opts)
	limitWrites(w, timeout+watchGrace)
	w.Header().Set("Content-Type", r.rep.contentType(s.codecs, true))
	w.WriteHeader(http.StatusOK)
	info := s.codecs.infos[r.rep.form].StreamSerializer
	body := &frameWriter{w: w}
	st := &stream{
		server: s, r: r, w: w, watcher: watcher, columns: true, at: start.version, strikes: &streamFaults{strikes: strikes, all: &s.faults, body: body},
		frames: streaming.NewEncoder(writeCloser{info.Framer.NewFrameWriter(body)}, info.Serializer),
	}
	if err != nil {
		st.fail(err)
		return nil
	}
	defer watcher.close()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := st.run(ctx, watcher, start, opts.AllowWatchBookmarks); err != nil {
		s.opts.Logger.Debug("a watch was cut", "uri", r.URL.RequestURI(), "error", err)
		panic(http.ErrAbortHandler) // the connection is lost, not closed in order
	}
	return nil
}

func (s *Server) watchTimeout(opts *internalversion.ListOptions) time.Duration {
	switch {
	case opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0:
		return time.Duration(*opts.TimeoutSeconds) * time.Second
	case s.opts.WatchTimeout > 0:
		return s.opts.WatchTimeout
	}
	return 30*time.Minute + rand.N(30*time.Minute)
}

// run writes events until the watch ends: nil when it ends in order.
func (st *stream) run(ctx context.Context, w *watcher, start begin, bookmarks bool) error {
	if err := st.strikes.due(st); err != nil {
		return ended(err)
	}
	if err := st.initial(w, start); err != nil {
		return ended(err)
	}
	marks := time.NewTicker(st.server.opts.Bookmarks)
	defer marks.Stop()
	if err := st.flush(); err != nil {
		return ended(err)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ended(st.periodic(w, bookmarks))
			}
			return nil // the client or the server went away
		case <-marks.C:
			err = st.periodic(w, bookmarks)
		case <-w.wake:
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

// periodic writes what has come and a bookmark, if they are wanted.
func (st *stream) periodic(w *watcher, bookmarks bool) error {
	if !bookmarks || st.server.opts.NoBookmarks {
		return nil
	}
	// Other resources may have moved the version without waking this watch.
	if err := st.drain(w); err != nil {
		return err
	}
	return st.bookmark(false)
}

// ended tells the ends in order from the cuts.
func ended(err error) error {
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// initial writes what exists, and the mark after it.
func (st *stream) initial(w *watcher, start begin) error {
	records := slices.DeleteFunc(start.initial, func(rec *record) bool { return !w.sel.matches(w.kind, rec) })
	for i, rec := range records {
		if i >= len(records)/2 && st.strikes.has(TruncateBody) {
			break
		}
		if err := st.event(told{watch.Added, rec}); err != nil {
			return err
		}
	}
	if st.strikes.has(TruncateBody) {
		if err := st.flush(); err != nil {
			return err
		}
		return errCut
	}
	if start.mark {
		return st.bookmark(true)
	}
	return nil
}

// drain writes all that has come.
func (st *stream) drain(w *watcher) error {
	events, version, err := w.next()
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

// event writes one event, with the faults that are due.
func (st *stream) event(ev told) error {
	st.strikes.before()
	if err := st.write(ev.kind, ev.record); err != nil {
		return err
	}
	return st.strikes.after(st, ev)
}

func (st *stream) write(kind watch.EventType, rec *record) error {
	var obj runtime.Object
	switch st.r.rep.as {
	case "Table":
		obj = st.server.table(st.r, page{records: []*record{rec}, version: rec.version}, st.columns)
		st.columns = false
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		obj = partial(rec, st.r.rep.in)
	default:
		raw, err := st.server.codecs.record(st.r.kind, st.r.rep.form, rec)
		if err != nil {
			return err
		}
		return st.frame(string(kind), raw)
	}
	return st.object(string(kind), obj)
}

// object writes an event about something that is not stored.
func (st *stream) object(kind string, obj runtime.Object) error {
	raw, err := st.server.codecs.encode(representation{form: st.r.rep.form}, obj)
	if err != nil {
		return err
	}
	return st.frame(kind, raw)
}

func (st *stream) frame(kind string, raw []byte) error {
	return st.frames.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}})
}

// fail writes an error as the last event.
func (st *stream) fail(err error) {
	if st.object(string(watch.Error), statusOf(err)) == nil {
		_ = st.flush() // the watch is over either way
	}
}

// bookmark tells the version up to which the watch has told everything.
func (st *stream) bookmark(end bool) error {
	if st.strikes.has(DropBookmarks) {
		st.strikes.took(DropBookmarks)
		return nil
	}
	obj := st.r.kind.empty()
	rec := newRecord(obj, st.at)
	if end {
		rec.meta.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if !st.r.kind.stored() {
		obj = st.r.kind.present(obj)
	}
	switch st.r.rep.as {
	case "Table":
		obj = st.server.table(st.r, page{records: []*record{rec}, version: st.at}, st.columns)
		st.columns = false
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		obj = partial(rec, st.r.rep.in)
	}
	return st.object(string(watch.Bookmark), obj)
}

func (st *stream) flush() error {
	if err := http.NewResponseController(st.w).Flush(); err != nil {
		return fmt.Errorf("sending events: %w", err)
	}
	return nil
}

// frameWriter is where frames go; a fault may shorten the next one.
type frameWriter struct {
	w     io.Writer
	spoil func([]byte) []byte
}

// Write passes the frame on.
func (f *frameWriter) Write(p []byte) (int, error) {
	if f.spoil != nil {
		if _, err := f.w.Write(f.spoil(p)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return f.w.Write(p)
}

// writeCloser gives a writer a Close that does nothing.
type writeCloser struct{ io.Writer }

// Close implements [io.Closer].
func (writeCloser) Close() error { return nil }
