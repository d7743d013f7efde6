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
	"github.com/tarnproject/tarn/apiserver/internal/memory"
)

const (
	// freeAtOnce is how many requests may come at one instant before they are counted by what they do.
	freeAtOnce = 500
	// equalAtOnce is how many equal requests may come at one instant.
	equalAtOnce = 10_000
	// standstillPause is how long each request takes after that.
	standstillPause = time.Second
)

// standstill detects requests that never end in virtual time. In a testing/synctest bubble time passes only
// while every goroutine waits, so a client that repeats a request without a pause stops the clock: the test
// hangs, and no timeout ends it. In real time hardly two requests come at one instant.
type standstill struct {
	limit int // equal requests at one instant

	mu    sync.Mutex // guards the rest
	at    time.Time
	all   int // requests at that instant
	equal map[access.Attributes]int
	cause error // nil until time has stood still
}

// err returns why virtual time does not pass, or nil.
func (s *standstill) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// count counts a request. The cause is not nil once there were too many, and first for one of them.
func (s *standstill) count(what func() access.Attributes) (cause error, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause, false
	}
	if now := time.Now(); !now.Equal(s.at) {
		s.at, s.all = now, 0
		clear(s.equal)
	}
	if s.all++; s.all <= freeAtOnce {
		return nil, false
	}
	if s.equal == nil {
		s.equal = map[access.Attributes]int{}
	}
	a := what()
	if s.equal[a]++; s.equal[a] < s.limit {
		return nil, false
	}
	s.cause = fmt.Errorf(`apiserver: virtual time stands still: at one instant there were %d requests, most of them these:
%s
A program that repeats requests without a pause never lets the clock advance. A controller that changes what it watches
triggers itself: write only what differs. A client that tries again at once needs a back-off. Many clients that
really send so many equal requests need a fault of the kind %s. From now on each request takes %v, so that the test ends`,
		s.all, s.most(), Latency, standstillPause)
	return s.cause, true
}

// most returns the most frequent requests, one line each. The caller must hold the lock.
func (s *standstill) most() string {
	all := slices.SortedFunc(maps.Keys(s.equal), func(a, b access.Attributes) int {
		return cmp.Or(cmp.Compare(s.equal[b], s.equal[a]), strings.Compare(a.String(), b.String()))
	})
	var lines []string
	for _, a := range all[:min(5, len(all))] {
		text := fmt.Sprintf("%8d times %v", s.equal[a], a)
		if a.Name != "" {
			text += ", " + a.Name
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// pace counts a request and, once virtual time has stood still, delays it. It reports that once.
func (s *Server) pace(ctx context.Context, what func() access.Attributes) {
	cause, first := s.standstill.count(what)
	if cause == nil {
		return
	}
	if first {
		s.opts.Logger.Error(cause.Error())
		if s.report != nil {
			s.report("%v", cause)
		}
	}
	t := time.NewTimer(standstillPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// paceRequest is pace for a request that the server has received.
func (s *Server) paceRequest(req *http.Request) {
	s.pace(req.Context(), func() access.Attributes { return access.AttributesOf(req) })
}

// paceCreate counts a create under the name of its object, which attributes lack: any number of objects may be
// created at one instant, but not one object again and again, nor objects without names.
func (s *Server) paceCreate(req *http.Request, name string) {
	if name == "" {
		return
	}
	a := access.AttributesOf(req)
	s.standstill.mu.Lock()
	if s.standstill.equal[a] > 0 {
		s.standstill.equal[a]--
		s.standstill.all--
	}
	s.standstill.mu.Unlock()
	a.Name = name
	s.pace(req.Context(), func() access.Attributes { return a })
}

// refuseDial returns the error of a connection that is refused. A client may repeat that too.
func (s *Server) refuseDial(ctx context.Context) error {
	s.pace(ctx, func() access.Attributes { return access.Attributes{Verb: "connect to", Path: "/"} })
	return memory.Refused()
}
