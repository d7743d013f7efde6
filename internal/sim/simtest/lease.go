package simtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/wire"
)

// ErrDown is the error of a request while a link is down.
var ErrDown = errors.New("link down")

// LeaseLink is one process's connection to an API server, which the process uses for its lease.
// A test interrupts it and slows it down. It knows when the process's lease ends, independently
// of the elector. Its methods are safe for concurrent use.
type LeaseLink struct {
	identity string
	next     http.RoundTripper

	mu       sync.Mutex // guards the rest
	down     bool
	slow     time.Duration
	ends     time.Time
	requests []string
}

// NewLeaseLink returns the link of a process with an identity.
func NewLeaseLink(config *rest.Config, identity string) *LeaseLink {
	return &LeaseLink{identity: identity, next: config.Transport}
}

// Config returns a client config whose requests use the link.
func (l *LeaseLink) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Transport = l
	return config
}

// Client returns a client whose requests use the link.
func (l *LeaseLink) Client(config *rest.Config) *wire.Client {
	client, err := wire.New(l.Config(config), wire.Options{})
	if err != nil {
		panic(err)
	}
	return client
}

// Set interrupts the link, or sets how long a request takes, regardless of its context, as if
// the process were paused. A slow request is processed after that time.
func (l *LeaseLink) Set(down bool, slow time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.slow = down, slow
}

// Deadline returns when the process's lease ends, by its last write that the server stored. It
// is zero if the lease was released.
func (l *LeaseLink) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends
}

// Requests returns the methods of all requests since the last call.
func (l *LeaseLink) Requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.requests
	l.requests = nil
	return all
}

// RoundTrip implements http.RoundTripper.
func (l *LeaseLink) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	l.mu.Lock()
	down, slow := l.down, l.slow
	l.requests = append(l.requests, req.Method)
	l.mu.Unlock()
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		if closed := req.Body.Close(); err != nil || closed != nil {
			return nil, errors.Join(err, closed)
		}
	}
	ctx := req.Context()
	if slow > 0 {
		<-time.After(slow)
		ctx = context.WithoutCancel(ctx)
	}
	if down {
		return nil, ErrDown
	}
	req = req.Clone(ctx)
	if body != nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := l.next.RoundTrip(req)
	if err == nil && body != nil && resp.StatusCode < 300 {
		obj, _, _ := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil) // a patch is no object
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			l.stored(sent, lease)
		}
	}
	return resp, err
}

func (l *LeaseLink) stored(sent time.Time, lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = time.Time{}
	if s := lease.Spec; s.HolderIdentity != nil && *s.HolderIdentity == l.identity {
		l.ends = sent.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)
	}
}
