package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errorFaults maps faults that replace the response with an error.
var errorFaults = map[FaultKind]func(f Fault, r *request.Request) error{
	Unauthorized: func(Fault, *request.Request) error { return apierrors.NewUnauthorized("Unauthorized") },
	Forbidden: func(_ Fault, r *request.Request) error {
		return apierrors.NewForbidden(r.Kind.GVR().GroupResource(), r.Name, errors.New(`User "system:anonymous" cannot `+r.Verb+` it`))
	},
	NotServed: func(_ Fault, r *request.Request) error {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, r.Verb, r.Kind.GVR().GroupResource(), r.Name, "", 0, true)
	},
	TooManyRequests: func(f Fault, _ *request.Request) error {
		return apierrors.NewTooManyRequests("Too many requests, please try again later.", seconds(f.Wait))
	},
	InternalError: func(Fault, *request.Request) error {
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	},
	Unavailable: func(f Fault, _ *request.Request) error {
		err := apierrors.NewServiceUnavailable("apiserver is shutting down")
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds(f.Wait))}
		return err
	},
	Conflict: func(_ Fault, r *request.Request) error { return kinds.Conflict(r.Kind, r.Key()) },
	WebhookDown: func(Fault, *request.Request) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "webhook.example.com": failed to call webhook: ` +
			`Post "https://webhook.default.svc:443/admit?timeout=10s": dial tcp 10.96.0.10:443: connect: connection refused`))
	},
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// injectFaults applies the faults that take effect before or instead of the response. It
// returns true if the request needs no further processing.
func (s *Server) injectFaults(w http.ResponseWriter, r *request.Request, faults requestFaults) (_ http.ResponseWriter, done bool) {
	if len(faults) == 0 {
		return w, false
	}
	if faults.has(Refuse) {
		panic(http.ErrAbortHandler)
	}
	if f, ok := faults[Latency]; ok {
		t := time.NewTimer(f.Wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if faults.has(Stall) && r.Verb != "watch" {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if faults.has(Gone) {
		s.out.Error(w, r.Request, s.storage.TooOld(1, 2))
		return w, true
	}
	if faults.has(KillBefore) {
		killClient(r)
	}
	if faults.has(LeaderLost) {
		s.out.Error(w, r.Request, s.takeLease(r))
		return w, true
	}
	if faults.has(AlreadyExists) {
		s.out.Error(w, r.Request, s.refuseCreate(r))
		return w, true
	}
	for kind, refusal := range errorFaults {
		if f, ok := faults[kind]; ok {
			s.out.Error(w, r.Request, refusal(f.Fault, r))
			return w, true
		}
	}
	if faults.has(KillAfter) {
		_ = s.serve(&truncated{ResponseWriter: w}, r, faults) // the response is lost
		killClient(r)
	}
	if faults.has(TruncateBody) && r.Verb != "watch" {
		half := &truncated{ResponseWriter: w}
		if err := s.serve(half, r, faults); err != nil {
			s.out.Error(half, r.Request, err)
		}
		half.send()
		panic(http.ErrAbortHandler)
	}
	return w, false
}

// refuseCreate returns the AlreadyExists error for the object that a request creates.
func (s *Server) refuseCreate(r *request.Request) error {
	raw, err := request.ReadBody(r.Request)
	if err != nil {
		return err
	}
	obj, err := s.codecs.Parse(r.Kind, raw)
	if err != nil {
		return err
	}
	m := kinds.MetaOf(obj)
	return apierrors.NewAlreadyExists(r.Kind.GVR().GroupResource(), cmp.Or(m.GetName(), m.GetGenerateName()+s.names.Suffix()))
}

// takeLease makes another holder take the lease of a request and returns the error of the
// renewal.
func (s *Server) takeLease(r *request.Request) error {
	for {
		old := s.storage.Get(r.Kind, r.Key())
		if old == nil {
			return kinds.NotFound(r.Kind, r.Name)
		}
		lease, ok := old.Obj.DeepCopyObject().(*coordinationv1.Lease)
		if !ok {
			return kinds.Conflict(r.Kind, r.Key())
		}
		holder, at, transitions := "another-holder", metav1.NowMicro(), int32(1)
		if t := lease.Spec.LeaseTransitions; t != nil {
			transitions += *t
		}
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime, lease.Spec.LeaseTransitions = &holder, &at, &at, &transitions
		if _, ok := s.storage.Commit(r.Kind, old.Key, old, lease); ok {
			return kinds.Conflict(r.Kind, r.Key())
		}
	}
}

// truncated buffers a response to send only its first half.
type truncated struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader buffers the status code.
func (t *truncated) WriteHeader(code int) { t.code = code }

// Write buffers the body.
func (t *truncated) Write(p []byte) (int, error) { return t.body.Write(p) }

// SetWriteDeadline supports [http.ResponseController].
func (t *truncated) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(t.ResponseWriter).SetWriteDeadline(at)
}

func (t *truncated) send() {
	t.ResponseWriter.WriteHeader(t.code)
	if _, err := t.ResponseWriter.Write(t.body.Bytes()[:t.body.Len()/2]); err == nil {
		_ = http.NewResponseController(t.ResponseWriter).Flush() // the connection is dropped next
	}
}

// streamFaults holds the faults of one watch.
type streamFaults struct {
	requestFaults
	all      *faults
	start    string // the path and the version where the watch began
	body     *frameWriter
	sent     int
	previous *storage.Event
}

// used records that a fault took effect.
func (f *streamFaults) used(kind FaultKind) {
	if of := f.requestFaults[kind].of; of != nil {
		f.all.used(of)
	}
}

// due reports whether a fault applies now, that is, after enough events.
func (f *streamFaults) due(kind FaultKind) bool {
	fault, ok := f.requestFaults[kind]
	if !ok || f.sent < fault.After || fault.of != nil && slices.Contains(endFaults, kind) && !f.all.mayEnd(fault.of, f.start) {
		return false
	}
	f.used(kind)
	return true
}

// beforeEvent is called before an event is written.
func (f *streamFaults) beforeEvent() {
	switch {
	case f.due(TruncateFrame):
		f.body.corrupt = func(p []byte) []byte { return p[:len(p)/2] }
	case f.due(CorruptFrame):
		// Neither JSON nor a plausible frame length.
		f.body.corrupt = func(p []byte) []byte { return []byte("\xff\xff\xff\xff{not an event\n") }
	}
}

// afterEvent is called after an event was written.
func (f *streamFaults) afterEvent(st *stream, ev storage.Event) error {
	if len(f.requestFaults) == 0 {
		return nil
	}
	if f.body.corrupt != nil {
		if err := st.flush(); err != nil {
			return err
		}
		if f.has(CorruptFrame) {
			return storage.ErrOver
		}
		return storage.ErrCut
	}
	again := f.previous
	if f.due(DuplicateEvent) {
		if err := st.write(ev.Kind, ev.Record); err != nil {
			return err
		}
	}
	if f.due(StaleEvent) && again != nil {
		if err := st.write(again.Kind, again.Record); err != nil {
			return err
		}
	}
	f.previous = &ev
	f.sent++
	return f.endIfDue(st)
}

// endIfDue ends or stalls the watch if such a fault is due.
func (f *streamFaults) endIfDue(st *stream) error {
	var end error
	switch {
	case f.due(CutWatch):
		end = storage.ErrCut
	case f.due(EndWatch):
		end = storage.ErrOver
	case f.due(GoneEvent):
		st.fail(st.server.storage.TooOld(st.at, st.at+1))
		end = storage.ErrOver
	case f.due(ErrorEvent):
		st.fail(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
		end = storage.ErrOver
	case f.due(Stall):
		if err := st.flush(); err != nil {
			return err
		}
		return st.stall()
	default:
		return nil
	}
	if err := st.flush(); err != nil {
		return err
	}
	return end
}

// stall sends nothing until the watch is cut, the client disconnects or the server stops.
func (st *stream) stall() error {
	for {
		select {
		case <-st.r.Context().Done():
			return context.Cause(st.r.Context())
		case <-st.watcher.Wake:
			if st.watcher.IsCut() {
				return storage.ErrCut
			}
		}
	}
}
