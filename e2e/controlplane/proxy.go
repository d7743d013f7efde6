package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy forwards connections to a server and injects faults on request. It works on bytes and
// does not terminate TLS.
//
// [Proxy.Stall], [Proxy.Slow], [Proxy.Refuse] and [Proxy.CutAfter] last until they are
// reverted; [Proxy.Cut] and [Proxy.Hold] affect the connections that are open.
// All methods may be called from any goroutine, before, during and after Run.
type Proxy struct {
	target  string
	address string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	changed  chan struct{} // closed and replaced when listener changes
	closed   bool
	links    map[*link]struct{}
	trouble  trouble
	counts   ProxyCounts
}

// trouble is the faults that connections have at the moment.
type trouble struct {
	stalled  bool
	rate     int           // bytes per second in each direction, 0 for no limit
	latency  time.Duration // before each piece
	cutAfter int64         // bytes from the server before a new connection is cut, negative for never
}

// ProxyCounts are what went through a proxy.
type ProxyCounts struct {
	// Accepted are the connections so far, Cut those of them that the proxy ended.
	Accepted, Cut int
	// Open are the connections now.
	Open int
	// Received is how many bytes the server has sent to clients.
	Received int64
}

// NewProxy listens on loopback for connections to pass on to a server at host and port.
// Nothing is passed on until [Proxy.Run].
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Proxy{
		target: target, address: l.Addr().String(), listener: l, changed: make(chan struct{}),
		links: map[*link]struct{}{}, trouble: trouble{cutAfter: -1},
	}, nil
}

// StartProxy runs a proxy until the test has ended.
func StartProxy(t TB, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("%v", err)
		}
	})
	return p
}

// Run passes connections on until the context ends, then cuts them all and returns when
// the last is closed.
func (p *Proxy) Run(ctx context.Context) error {
	var links sync.WaitGroup
	defer links.Wait()
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	defer p.close()
	for {
		p.mu.Lock()
		l, changed, closed := p.listener, p.changed, p.closed
		p.mu.Unlock()
		if closed {
			return nil
		}
		if l == nil {
			<-changed
			continue
		}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			continue
		}
		if err != nil {
			return fmt.Errorf("controlplane: the proxy: %w", err)
		}
		links.Go(func() { p.serve(ctx, conn.(*net.TCPConn)) })
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		p.listener.Close()
	}
	p.listener = nil
	p.wake()
	p.mu.Unlock()
	p.Cut()
}

// wake makes Run use the new listener. p.mu is held.
func (p *Proxy) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Address returns the host and port to connect to.
func (p *Proxy) Address() string { return p.address }

// Config returns a copy of a client's configuration that goes through the proxy.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	if u, err := url.Parse(config.Host); err == nil && u.Host != "" {
		u.Host = p.address
		c.Host = u.String()
	} else {
		c.Host = p.address
	}
	return c
}

// Counts returns what went through so far.
func (p *Proxy) Counts() ProxyCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Open = len(p.links)
	return c
}

// Cut resets all open connections and counts them.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for l := range p.links {
		p.drop(l)
	}
	return n
}

// drop resets a connection. p.mu is held.
func (p *Proxy) drop(l *link) {
	if _, open := p.links[l]; open {
		delete(p.links, l)
		p.counts.Cut++
		l.reset()
	}
}

// CutAfter resets each connection that is made from now on as soon as so many bytes have
// come from the server: in the middle of a TLS record, an HTTP frame, an object. A negative
// number is never.
func (p *Proxy) CutAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble.cutAfter = bytes
}

// Stall holds back all bytes of all connections, also of new ones, or releases them with what
// was received meanwhile.
func (p *Proxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble.stalled = on
	p.rouse()
}

// Slow lets through so many bytes a second in each direction of each connection, and delays
// each piece; zero is no limit and no delay.
func (p *Proxy) Slow(bytesPerSecond int, latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble.rate, p.trouble.latency = bytesPerSecond, latency
	p.rouse()
}

// Hold stalls the connections that are open now and not those that come later. What is
// held arrives when the returned function is called: after what has been sent since on
// other connections, so that a client that has reconnected gets old events late.
func (p *Proxy) Hold() (release func()) {
	all := p.HoldEach()
	return func() {
		for _, release := range all {
			release()
		}
	}
}

// HoldEach is as [Proxy.Hold], but each connection is let go by itself. So they can
// overtake each other: what was sent first on one arrives after what was sent last on
// another. TCP keeps the order within a connection.
func (p *Proxy) HoldEach() (release []func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.held {
			continue
		}
		l.held = true
		release = append(release, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			l.held = false
			p.rouse()
		})
	}
	return release
}

// rouse makes waiting connections check the faults again. p.mu is held.
func (p *Proxy) rouse() {
	for l := range p.links {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// Refuse refuses new connections, like a port without a listener, or accepts them again.
// Open ones stay open.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return net.ErrClosed
	case on && p.listener != nil:
		err := p.listener.Close()
		p.listener = nil
		p.wake()
		return err
	case !on && p.listener == nil:
		l, err := net.Listen("tcp", p.address)
		if err != nil {
			return fmt.Errorf("controlplane: the proxy's port: %w", err)
		}
		p.listener = l
		p.wake()
	}
	return nil
}
