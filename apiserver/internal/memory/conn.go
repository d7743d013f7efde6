package memory

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeSize is the buffer of an in-memory connection, about that of a socket, so that slow
// readers cause back-pressure.
const pipeSize = 256 << 10

// Listener accepts in-memory connections. All blocking is on channels,
// so that testing/synctest detects when the bubble is idle.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewListener returns an open listener.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return Addr{} }

// Dial opens a connection of a client, or of one that the server need not know if it is nil.
func (l *Listener) Dial(ctx context.Context, of any) (*Conn, error) {
	here, there := newPipe(), newPipe()
	client, server := &Conn{in: here, out: there}, &Conn{in: there, out: here, Owner: of}
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, Refused()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Refused returns the error of dialing a closed listener.
func Refused() error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: Addr{}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// Addr is the address of both ends of every connection.
type Addr struct{}

// Network implements [net.Addr].
func (Addr) Network() string { return "memory" }

// String implements [net.Addr].
func (Addr) String() string { return "memory" }

// pipe is one direction of a connection. Everything that blocks waits for changed, which testing/synctest
// treats as durably blocked, unlike a goroutine that waits for a mutex.
type pipe struct {
	mu            sync.Mutex // guards the rest, never while a call waits
	changed       sync.Cond
	held          []byte
	ended         bool // the write end is closed
	cut           bool // the read end is closed
	writing       bool // a write is in progress
	reads, writes deadline
}

// deadline is when the calls at one end of a pipe fail.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func newPipe() *pipe {
	p := new(pipe)
	p.changed.L = &p.mu
	return p
}

// change calls f with the lock, and then all waiting calls check again.
func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// setDeadline moves a deadline, also for calls that already wait. The zero time means none.
func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.change(func() {
		if d.timer != nil {
			d.timer.Stop()
		}
		left := time.Until(t)
		if d.timer, d.passed = nil, !t.IsZero() && left <= 0; t.IsZero() || d.passed {
			return
		}
		var timer *time.Timer
		timer = time.AfterFunc(left, func() { p.change(func() { d.passed = d.passed || d.timer == timer }) })
		d.timer = timer
	})
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.reads.passed:
			return 0, os.ErrDeadlineExceeded
		case p.cut:
			return 0, net.ErrClosed
		case len(p.held) > 0:
			n := copy(b, p.held)
			p.held = p.held[n:]
			p.changed.Broadcast()
			return n, nil
		case p.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		p.changed.Wait()
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.writing {
		p.changed.Wait()
	}
	p.writing = true
	defer func() {
		p.writing = false
		p.changed.Broadcast()
	}()
	for len(b) > 0 {
		room := pipeSize - len(p.held)
		switch {
		case p.ended || p.cut:
			return n, io.ErrClosedPipe
		case p.writes.passed:
			return n, os.ErrDeadlineExceeded
		case room > 0:
			some := b[:min(room, len(b))]
			p.held = append(p.held, some...)
			b = b[len(some):]
			n += len(some)
			p.changed.Broadcast()
		default:
			p.changed.Wait()
		}
	}
	return n, nil
}

// end closes the write end, stop the read end.
func (p *pipe) end() { p.change(func() { p.ended = true }) }

func (p *pipe) stop() { p.change(func() { p.cut, p.held = true, nil }) }

// Conn is one end of a connection.
type Conn struct {
	in, out *pipe
	Owner   any    // the client, at the server's end
	OnClose func() // called by Close; nil for nothing
}

// Read implements [net.Conn].
func (c *Conn) Read(b []byte) (int, error) { return c.in.read(b) }

// Write implements [net.Conn].
func (c *Conn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close implements [net.Conn]. The peer can still read what was written before.
func (c *Conn) Close() error {
	c.out.end()
	c.in.stop()
	c.in.setDeadline(&c.in.reads, time.Time{})
	c.out.setDeadline(&c.out.writes, time.Time{})
	if c.OnClose != nil {
		c.OnClose()
	}
	return nil
}

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return Addr{} }

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return Addr{} }

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reads, t)
	c.out.setDeadline(&c.out.writes, t)
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reads, t)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writes, t)
	return nil
}
