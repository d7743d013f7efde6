package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/object"
)

// loggedRequests is the number of requests in the log of a failed test.
const loggedRequests = 300

// requestLog holds the last requests, for the log of a failed test, and the time of the last
// activity, for WaitIdle.
type requestLog struct {
	mu      sync.Mutex // guards the rest
	began   time.Time
	dropped int
	last    []*loggedRequest
	open    int // requests in progress, except watches
	active  time.Time

	wrote func(requestName, string) // receives the writes of clients and their results; set before any, or nil
}

// loggedRequest is one line of the log. It has no result until the request ends.
type loggedRequest struct {
	at             time.Time
	client, result string
	what           fmt.Stringer
}

// requestName is the verb and the object of a request.
type requestName struct {
	verb        string
	kind        *kinds.Kind
	subresource string
	key         object.Key
}

func titleOf(r *request.Request) requestName {
	return requestName{r.Verb, r.Kind, r.Subresource, r.Key()}
}

// String returns a text such as "patch websites.example.com/status shop/web".
func (n requestName) String() string {
	text := n.verb + " " + n.kind.String()
	if n.subresource != "" {
		text += "/" + n.subresource
	}
	if key := strings.TrimSuffix(n.key.String(), "/"); key != "" {
		text += " " + key
	}
	return text
}

// append adds a line. The caller must hold the lock.
func (l *requestLog) append(e *loggedRequest) {
	if l.began.IsZero() {
		l.began = e.at
	}
	if len(l.last) == loggedRequests {
		l.last = l.last[1:]
		l.dropped++
	}
	l.last = append(l.last, e)
}

// begin records a request. The returned function records its end.
func (l *requestLog) begin(r *request.Request, w *http.ResponseWriter) (end func(requestFaults)) {
	tracked, ok := (*w).(*trackingWriter)
	if !ok {
		tracked = &trackingWriter{ResponseWriter: *w}
		*w = tracked
	}
	entry := &loggedRequest{at: time.Now(), what: titleOf(r)}
	if p := processOf(r.Request); p != nil {
		entry.client = p.name
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(entry)
	counts := r.Verb != "watch" && !r.Kind.IsLease()
	if counts {
		l.open++
	}
	return func(faults requestFaults) {
		if l.wrote != nil && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			defer func() { l.wrote(titleOf(r), entry.result) }()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if counts {
			l.open--
			l.active = time.Now()
		}
		entry.result = "no response"
		if tracked.code != 0 {
			entry.result = fmt.Sprint(tracked.code)
		}
		for _, kind := range slices.Sorted(maps.Keys(faults)) {
			entry.result += ", " + string(kind)
		}
	}
}

// answered records the time of a response that begin does not see, such as a denial, and of a
// failed watch: a client that retries is not idle.
func (l *requestLog) answered(req *http.Request) {
	if a := access.AttributesOf(req); a.Group == "coordination.k8s.io" && a.Resource == "leases" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = time.Now()
}

// sent records that a watch sent an event.
func (l *requestLog) sent(k *kinds.Kind) {
	if k.IsLease() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = time.Now()
}

// RequestLog returns the last 300 requests, one line each, as [Start] logs them when a test fails:
// the seconds since the first one, the client if it is a [Process] or was denied, the request, and the
// status of the response with the faults that hit it.
//
//	0.001s start 1: create pods default: 201
//
// Repetitions are summarized.
func (s *Server) RequestLog() string {
	l := &s.requests
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == 0 {
		return "no requests"
	}
	var b strings.Builder
	if l.dropped > 0 {
		fmt.Fprintf(&b, "%d earlier requests\n", l.dropped)
	}
	for i := 0; i < len(l.last); {
		e := l.last[i]
		fmt.Fprintf(&b, "%8.3fs %s\n", e.at.Sub(l.began).Seconds(), e)
		i++
		if n, times := repeated(l.last, i); times > 1 {
			what := "line"
			if n > 1 {
				what = fmt.Sprintf("%d lines", n)
			}
			fmt.Fprintf(&b, "          (the last %s %d more times)\n", what, times)
			i += n * times
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// repeated returns how often the n requests before i are repeated from i on. It chooses the n, at most 4,
// with which the repetitions cover the most requests.
func repeated(all []*loggedRequest, i int) (n, times int) {
	for size := 1; size <= min(4, i); size++ {
		j := i
		for ; j < len(all) && all[j].String() == all[j-size].String(); j++ {
		}
		if t := (j - i) / size; t*size > n*times {
			n, times = size, t
		}
	}
	return n, times
}

// String returns the line without the time.
func (e *loggedRequest) String() string {
	text := e.what.String() + ": " + cmp.Or(e.result, "open")
	if e.client != "" {
		return e.client + ": " + text
	}
	return text
}

// returned records that a supervised program returned by itself.
func (l *requestLog) returned(client string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(&loggedRequest{at: time.Now(), client: client, what: programReturned{}, result: fmt.Sprint(err)})
}

type programReturned struct{}

// String implements [fmt.Stringer].
func (programReturned) String() string { return "the program returned" }

// idle returns how long there has been no activity.
func (s *Server) idle() time.Duration {
	changed := s.storage.LastChange()
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	if s.requests.open > 0 {
		return 0
	}
	last := s.requests.active
	if changed.After(last) {
		last = changed
	}
	return time.Since(last)
}

// WaitIdle blocks until, for the time quiet, no request was in progress, no object changed
// and no watch sent an event. Open watches and Leases do not count as activity, and a watch that
// fails does: a client that retries a request that is denied is not idle. It is for tests
// outside of a testing/synctest bubble, which cannot know when a controller is done: choose a
// time that is longer than the controller's longest pause, and check the result. In a bubble it fails if requests
// are repeated at one instant, because virtual time does not pass then.
func (s *Server) WaitIdle(ctx context.Context, quiet time.Duration) error {
	for {
		if err := s.standstill.err(); err != nil {
			return err
		}
		idle := s.idle()
		if idle >= quiet {
			return nil
		}
		timer := time.NewTimer(quiet - idle)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("apiserver: waiting until the server is idle for %v: %w", quiet, context.Cause(ctx))
		}
	}
}

// denied adds a request that was not permitted to the log.
func (l *requestLog) denied(u *access.User, a access.Attributes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(&loggedRequest{at: time.Now(), client: u.Username, what: a, result: fmt.Sprint(http.StatusForbidden)})
}
