package controlplane

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is a connection through a [Proxy]: that of the client, and ours to the server.
type link struct {
	client, server *net.TCPConn
	ended          chan struct{}

	// Guarded by the proxy's mu.
	held    bool
	changed chan struct{} // closed and replaced when trouble or held change
	left    int64         // bytes from the server before it is cut, negative for no end
}

// reset closes both connections so that the peers see an error and not EOF.
func (l *link) reset() {
	close(l.ended)
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

// serve passes one connection on until it ends.
func (p *Proxy) serve(ctx context.Context, client *net.TCPConn) {
	defer client.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		_ = client.SetLinger(0) // so that the client sees a refused connection
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	l := &link{client: client, server: server, ended: make(chan struct{}), changed: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.links[l] = struct{}{}
	p.counts.Accepted++
	l.left = p.trouble.cutAfter
	p.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { p.pump(l, server, client, false) })
	both.Go(func() { p.pump(l, client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pump copies one direction. When one side closes its direction, so does the other; an
// error ends both.
func (p *Proxy) pump(l *link, dst, src *net.TCPConn, fromServer bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := src.Read(buf)
		for piece := buf[:n]; len(piece) > 0; {
			size, cut, ok := p.admit(l, len(piece), fromServer)
			if !ok {
				return
			}
			if _, err := dst.Write(piece[:size]); err != nil {
				p.fail(l)
				return
			}
			if cut {
				p.mu.Lock()
				p.drop(l)
				p.mu.Unlock()
				return
			}
			piece = piece[size:]
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = dst.CloseWrite()
			} else {
				p.fail(l)
			}
			return
		}
	}
}

// fail passes an error of one side on to the other.
func (p *Proxy) fail(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.links[l]; open {
		delete(p.links, l)
		l.reset()
	}
}

// admit waits until some of n bytes may go on and says how many, and whether the
// connection is to be cut behind them. It is not ok when the connection has ended.
func (p *Proxy) admit(l *link, n int, fromServer bool) (size int, cut, ok bool) {
	paused := false // the pause that slowness asks for is over
	for {
		p.mu.Lock()
		stalled, changed := p.trouble.stalled || l.held, l.changed
		size, pause := p.trouble.pace(n)
		if !stalled && (paused || pause == 0) {
			size, cut = l.spend(size, fromServer)
			if fromServer {
				p.counts.Received += int64(size)
			}
			p.mu.Unlock()
			return size, cut, true
		}
		p.mu.Unlock()
		var over <-chan time.Time
		if !stalled {
			over = time.After(pause)
		}
		select {
		case <-over:
			paused = true
		case <-changed:
		case <-l.ended:
			return 0, false, false
		}
	}
}

// pace says how many of n bytes go on as one piece, and after which time.
func (t trouble) pace(n int) (size int, pause time.Duration) {
	if t.rate <= 0 {
		return n, t.latency
	}
	size = min(n, max(1, t.rate/20))
	return size, t.latency + time.Duration(size)*time.Second/time.Duration(t.rate)
}

// spend takes n bytes from what the server may still send, and says whether that was the
// last. The proxy's mu is held.
func (l *link) spend(n int, fromServer bool) (size int, last bool) {
	if !fromServer || l.left < 0 {
		return n, false
	}
	size = int(min(int64(n), l.left))
	l.left -= int64(size)
	return size, l.left == 0
}
