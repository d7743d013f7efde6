package apiserver

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusals are the faults that are an answer by themselves.
var refusals = map[FaultKind]func(f Fault, r *request) *apierrors.StatusError{
	Unauthorized: func(Fault, *request) *apierrors.StatusError { return apierrors.NewUnauthorized("Unauthorized") },
	Forbidden: func(_ Fault, r *request) *apierrors.StatusError {
		return apierrors.NewForbidden(r.kind.GVR().GroupResource(), r.name, errors.New(`User "system:anonymous" cannot `+r.verb+` it`))
	},
	NotServed: func(_ Fault, r *request) *apierrors.StatusError {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, r.verb, r.kind.GVR().GroupResource(), r.name, "", 0, true)
	},
	TooManyRequests: func(f Fault, _ *request) *apierrors.StatusError {
		return apierrors.NewTooManyRequests("Too many requests, please try again later.", seconds(f.Wait))
	},
	InternalError: func(Fault, *request) *apierrors.StatusError {
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	},
	Unavailable: func(f Fault, _ *request) *apierrors.StatusError {
		err := apierrors.NewServiceUnavailable("apiserver is shutting down")
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds(f.Wait))}
		return err
	},
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// suffer does what faults do before a request is served. The writer that it returns
// is to be used instead. When it is done, there is nothing left to serve.
func (s *Server) suffer(w http.ResponseWriter, r *request, hit strikes) (_ http.ResponseWriter, done bool) {
	if len(hit) == 0 {
		return w, false
	}
	if hit.has(Refuse) {
		panic(http.ErrAbortHandler)
	}
	if f, ok := hit[Latency]; ok {
		t := time.NewTimer(f.Wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if hit.has(Stall) && r.verb != "watch" {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if hit.has(Gone) {
		s.refuse(w, r.Request, s.storage.tooOld(1, 2))
		return w, true
	}
	for kind, refusal := range refusals {
		if f, ok := hit[kind]; ok {
			s.refuse(w, r.Request, refusal(f.Fault, r))
			return w, true
		}
	}
	if hit.has(TruncateBody) && r.verb != "watch" {
		half := &truncated{ResponseWriter: w}
		if err := s.serve(half, r, hit); err != nil {
			s.refuse(half, r.Request, err)
		}
		half.send()
		panic(http.ErrAbortHandler)
	}
	return w, false
}

// truncated holds an answer back, to send the first half of it.
type truncated struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader holds the status back.
func (t *truncated) WriteHeader(code int) { t.code = code }

// Write holds the body back.
func (t *truncated) Write(p []byte) (int, error) { return t.body.Write(p) }

// SetWriteDeadline is for [http.ResponseController].
func (t *truncated) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(t.ResponseWriter).SetWriteDeadline(at)
}

func (t *truncated) send() {
	t.ResponseWriter.WriteHeader(t.code)
	if _, err := t.ResponseWriter.Write(t.body.Bytes()[:t.body.Len()/2]); err == nil {
		_ = http.NewResponseController(t.ResponseWriter).Flush() // the connection is to be lost anyway
	}
}

// streamFaults are the faults of one watch.
type streamFaults struct {
	strikes
	all      *faults
	body     *frameWriter
	sent     int
	previous *told
}

// took notes that a fault has had its effect.
func (f *streamFaults) took(kind FaultKind) {
	if of := f.strikes[kind].of; of != nil {
		f.all.took(of)
	}
}

// ripe reports whether a fault is due: enough events have been sent.
func (f *streamFaults) ripe(kind FaultKind) bool {
	fault, ok := f.strikes[kind]
	if !ok || f.sent < fault.After {
		return false
	}
	f.took(kind)
	return true
}

// before is called when an event is to be written.
func (f *streamFaults) before() {
	switch {
	case f.ripe(TruncateFrame):
		f.body.spoil = func(p []byte) []byte { return p[:len(p)/2] }
	case f.ripe(CorruptFrame):
		// Neither JSON nor a length that anybody would take.
		f.body.spoil = func(p []byte) []byte { return []byte("\xff\xff\xff\xff{not an event\n") }
	}
}

// after is called when an event has been written.
func (f *streamFaults) after(st *stream, ev told) error {
	if len(f.strikes) == 0 {
		return nil
	}
	if f.body.spoil != nil {
		if err := st.flush(); err != nil {
			return err
		}
		if f.has(CorruptFrame) {
			return errOver
		}
		return errCut
	}
	again := f.previous
	if f.ripe(DuplicateEvent) {
		if err := st.write(ev.kind, ev.record); err != nil {
			return err
		}
	}
	if f.ripe(StaleEvent) && again != nil {
		if err := st.write(again.kind, again.record); err != nil {
			return err
		}
	}
	f.previous = &ev
	f.sent++
	return f.due(st)
}

// due ends the watch when it is time for that.
func (f *streamFaults) due(st *stream) error {
	var end error
	switch {
	case f.ripe(CutWatch):
		end = errCut
	case f.ripe(EndWatch):
		end = errOver
	case f.ripe(GoneEvent):
		st.fail(st.server.storage.tooOld(st.at, st.at+1))
		end = errOver
	case f.ripe(ErrorEvent):
		st.fail(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
		end = errOver
	case f.ripe(Stall):
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

// stall sends nothing until the watch is cut, or the client or the server goes away.
func (st *stream) stall() error {
	for {
		select {
		case <-st.r.Context().Done():
			return context.Cause(st.r.Context())
		case <-st.watcher.wake:
			if st.watcher.isCut() {
				return errCut
			}
		}
	}
}
