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

// pipe is one direction of a connection. Readers and writers serialize on channels instead
// of mutexes, because testing/synctest does not treat a goroutine blocked on a mutex as
// durably blocked.
type pipe struct {
	mu       sync.Mutex // guards held, ended, cut
	held     []byte
	ended    bool // the write end is closed
	cut      bool // the read end is closed
	readable chan struct{}
	writable chan struct{}
	writing  chan struct{} // held by the current writer
	reads    deadline
	writes   deadline
}

func newPipe() *pipe {
	return &pipe{
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), writing: make(chan struct{}, 1),
		reads: newDeadline(), writes: newDeadline(),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		passed := p.reads.wait()
		p.mu.Lock()
		switch {
		case isClosed(passed):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case p.cut:
			p.mu.Unlock()
			return 0, net.ErrClosed
		case len(p.held) > 0:
			n := copy(b, p.held)
			p.held = p.held[n:]
			if len(p.held) > 0 || p.ended {
				signal(p.readable)
			}
			p.mu.Unlock()
			signal(p.writable)
			return n, nil
		case p.ended:
			p.mu.Unlock()
			signal(p.readable)
			return 0, io.EOF
		}
		p.mu.Unlock()
		if len(b) == 0 {
			return 0, nil
		}
		select {
		case <-p.readable:
		case <-passed:
		}
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.writing <- struct{}{}
	defer func() { <-p.writing }()
	for len(b) > 0 {
		passed := p.writes.wait()
		p.mu.Lock()
		switch {
		case p.ended || p.cut:
			p.mu.Unlock()
			return n, io.ErrClosedPipe
		case isClosed(passed):
			p.mu.Unlock()
			return n, os.ErrDeadlineExceeded
		}
		if room := pipeSize - len(p.held); room > 0 {
			some := b[:min(room, len(b))]
			p.held = append(p.held, some...)
			b = b[len(some):]
			n += len(some)
			p.mu.Unlock()
			signal(p.readable)
			continue
		}
		p.mu.Unlock()
		select {
		case <-p.writable:
		case <-passed:
		}
	}
	return n, nil
}

// end closes the write end, stop the read end.
func (p *pipe) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	signal(p.readable)
	signal(p.writable)
}

func (p *pipe) stop() {
	p.mu.Lock()
	p.cut, p.held = true, nil
	p.mu.Unlock()
	signal(p.readable)
	signal(p.writable)
}

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
	c.in.reads.set(time.Time{})
	c.out.writes.set(time.Time{})
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
	c.in.reads.set(t)
	c.out.writes.set(t)
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.reads.set(t)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writes.set(t)
	return nil
}

// deadline closes a channel at a time that can be changed.
type deadline struct{ *deadlineState }

type deadlineState struct {
	mu     sync.Mutex // guards the rest
	timer  *time.Timer
	times  int // number of set calls, so that a stale timer has no effect
	passed chan struct{}
}

func newDeadline() deadline { return deadline{&deadlineState{passed: make(chan struct{})}} }

func (d deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// set moves the deadline, also for calls that already wait. The zero time means none.
func (d deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if isClosed(d.passed) {
		d.passed = make(chan struct{})
	}
	d.times++
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(d.passed)
		return
	}
	times := d.times
	d.timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.times == times {
			close(d.passed)
		}
	})
}
