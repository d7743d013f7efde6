package apiserver

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/apiserver/internal/memory"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"k8s.io/client-go/rest"
)

// Process is a client process that a test can kill: its connections are cut and all of its
// requests fail from that instant on. The goroutines that use it keep running, so a test
// stops them itself. A restarted program is a new Process. All methods may be called from any
// goroutine at any time.
type Process struct {
	server    *Server
	name      string
	transport *http.Transport
	killed    chan struct{}

	mu    sync.Mutex // guards dead, conns
	dead  bool
	conns map[*memory.Conn]bool // those that are open

	// plan adds faults to a request. It is set before the first request, and called by one
	// write at a time: writing is held from then on until the write has been answered, so
	// that no other write is half done when the process is killed.
	plan    planner
	writing chan struct{}
	// calling counts the webhooks that are called for writes of the process. One may be its own
	// and write before it responds, so writes do not wait for each other meanwhile.
	calling atomic.Int32
}

// planner adds the faults of an exploration to those of a request. The returned function is
// called when the request has been answered.
type planner func(*request.Request, *requestFaults) (answered func())

// Process returns a new client process. Its name appears in the log of requests. Under
// testing/synctest, call it inside the bubble.
func (s *Server) Process(name string) *Process {
	p := &Process{server: s, name: name, killed: make(chan struct{}), conns: map[*memory.Conn]bool{}, writing: make(chan struct{}, 1)}
	p.transport = s.newTransport(p.dial)
	return p
}

// Config returns a client config for the process. Connections are in memory.
func (p *Process) Config() *rest.Config {
	return &rest.Config{Host: memoryHost, Transport: p.transport, QPS: -1, BearerToken: p.server.access.AdminToken()}
}

// Kill kills the process. Further calls do nothing.
func (p *Process) Kill() {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead = true
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	close(p.killed)
	for _, c := range conns {
		_ = c.Close() // never fails
	}
	p.transport.CloseIdleConnections()
}

// Killed returns a channel that is closed when the process is killed, by Kill or by a fault.
func (p *Process) Killed() <-chan struct{} { return p.killed }

func (p *Process) isKilled() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

func (p *Process) dial(ctx context.Context) (net.Conn, error) {
	if p.server.refusing.Load() || p.isKilled() {
		return nil, p.server.refuseDial(ctx)
	}
	conn, err := p.server.memory.Dial(ctx, p)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		_ = conn.Close() // never fails
		return nil, memory.Refused()
	}
	p.conns[conn] = true
	conn.OnClose = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, conn)
	}
	return conn, nil
}

// planned calls plan for a request. The caller must call release when a write has been
// answered.
func (p *Process) planned(r *request.Request, faults *requestFaults) (release func()) {
	if !targetOf(r).writes() || r.Kind.Review {
		return p.plan(r, faults)
	}
	if p.calling.Load() > 0 {
		if p.isKilled() {
			panic(http.ErrAbortHandler)
		}
		return p.plan(r, faults)
	}
	p.writing <- struct{}{}
	if p.isKilled() {
		<-p.writing
		panic(http.ErrAbortHandler)
	}
	answered := p.plan(r, faults)
	if faults.has(Stall) { // it stores nothing, and other writes go on
		answered()
		<-p.writing
		return func() {}
	}
	return func() {
		answered()
		<-p.writing
	}
}

type processKey struct{}

// withProcess adds the process of a connection to the context of its requests.
func withProcess(ctx context.Context, c net.Conn) context.Context {
	if m, ok := c.(*memory.Conn); ok && m.Owner != nil {
		return context.WithValue(ctx, processKey{}, m.Owner)
	}
	return ctx
}

// processOf returns the process that sent a request, or nil if the client is not a Process.
func processOf(req *http.Request) *Process {
	p, _ := req.Context().Value(processKey{}).(*Process)
	return p
}

// killClient kills the process that sent the request, and drops the request.
func killClient(r *request.Request) {
	if p := processOf(r.Request); p != nil {
		p.Kill()
	}
	panic(http.ErrAbortHandler)
}

// callingWebhook counts a webhook that is called for a request of a process, until called.
func callingWebhook(req *http.Request) (called func()) {
	p := processOf(req)
	if p == nil {
		return func() {}
	}
	p.calling.Add(1)
	return func() { p.calling.Add(-1) }
}
