package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// saboteur wraps a transport. It expires watches on request and counts lists.
type saboteur struct {
	mu      sync.Mutex // guards what follows
	watches map[*watchBody]struct{}
	expired map[string]bool // by path: the next watch that would resume is refused
	lists   int64           // how many were asked for, page by page or as a stream
}

// errBroken ends a watch.
var errBroken = errors.New("scale: the watch was broken on purpose")

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		query := req.URL.Query()
		watch := query.Get("watch")
		watches := watch == "1" || watch == "true"
		if list := !watches || query.Get("sendInitialEvents") == "true"; list {
			s.listed(req.URL.Path, query.Get("continue") == "")
		} else if s.refuses(req.URL.Path) {
			return expired(req), nil
		}
		if !watches {
			return next.RoundTrip(req)
		}
		resp, err := next.RoundTrip(req)
		if err == nil {
			resp.Body = s.follow(req.URL.Path, resp.Body)
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// expire breaks all watches and has the next of each resource refused.
func (s *saboteur) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = map[string]bool{}
	for w := range s.watches {
		s.expired[w.path] = true
		w.once.Do(func() { close(w.broken) })
		_ = w.ReadCloser.Close()
	}
}

// listed notes a list. A client that lists because its watch broke, as client-go does, need
// not be made to list again.
func (s *saboteur) listed(path string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expired, path)
	if first {
		s.lists++
	}
}

func (s *saboteur) counted() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *saboteur) refuses(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.expired[path]
	delete(s.expired, path)
	return refused
}

func (s *saboteur) follow(path string, body io.ReadCloser) io.ReadCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watchBody{ReadCloser: body, s: s, path: path, broken: make(chan struct{})}
	if s.watches == nil {
		s.watches = map[*watchBody]struct{}{}
	}
	s.watches[w] = struct{}{}
	return w
}

// watchBody is the body of an open watch.
type watchBody struct {
	io.ReadCloser
	s      *saboteur
	path   string
	once   sync.Once
	broken chan struct{}
}

func (w *watchBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	select {
	case <-w.broken:
		return 0, errBroken
	default:
		return n, err
	}
}

func (w *watchBody) Close() error {
	w.s.mu.Lock()
	delete(w.s.watches, w)
	w.s.mu.Unlock()
	return w.ReadCloser.Close()
}

// expired is the response of an API server that has compacted a version.
func expired(req *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}`
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader([]byte(body))),
	}
}
