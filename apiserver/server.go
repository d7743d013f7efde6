package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/internal/hostcheck"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// memoryHost is the name of the server for connections in memory. No resolver knows it.
const memoryHost = "http://tarn.invalid"

// Server is an API server in the process. It is made by [New], which listens, and served
// by [Server.Run]; all other methods may be called from any goroutine at any time, before
// and after Run too, since the objects are the server's and not the connections'.
type Server struct {
	opts        Options
	storage     *storage
	catalog     *catalog
	codecs      *codecs
	ownership   *ownership
	faults      faults
	definitions *kind
	namespaces  *kind

	tcp       net.Listener // nil without an address
	tls       *tls.Config  // nil without TLS
	authority []byte       // that signed the certificate, in PEM
	hosts     []string     // accepted at tcp besides loopback; never written to after New
	memory    *memoryListener
	transport *http.Transport // to memory
	refusing  atomic.Bool

	mu      sync.Mutex // guards rand, ran, closing
	rand    *rand.Rand
	ran     bool
	closing bool

	handlers sync.WaitGroup
}

// ErrRan is returned by a second [Server.Run].
var ErrRan = errors.New("apiserver: the server was run or closed before")

// New makes a server with the namespaces that every cluster has, and listens on the
// address if there is one. Nothing is answered until [Server.Run]. A server that is
// never run is to be closed.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	s := &Server{
		opts: opts, storage: newStorage(opts.History, opts.OldServer), codecs: newCodecs(), ownership: newOwnership(),
		catalog: &catalog{kinds: map[schema.GroupVersionResource]*kind{}}, memory: newMemoryListener(), definitions: definitions(),
		rand: rand.New(rand.NewPCG(opts.Seed, opts.Seed)), faults: faults{struck: map[FaultKind]int{}},
	}
	s.catalog.put(builtins(opts.EveryVersion)...)
	s.catalog.put(s.definitions)
	var err error
	if s.namespaces, err = s.catalog.get(corev1.SchemeGroupVersion.WithResource("namespaces")); err != nil {
		return nil, err
	}
	for _, name := range []string{metav1.NamespaceDefault, "kube-node-lease", metav1.NamespacePublic, metav1.NamespaceSystem} {
		if _, err := s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	s.transport = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) },
		MaxIdleConnsPerHost: 64,
	}
	if opts.HTTP2 {
		s.transport.Protocols = new(http.Protocols)
		s.transport.Protocols.SetUnencryptedHTTP2(true)
	}
	if opts.Address == "" {
		return s, nil
	}
	if s.tcp, err = net.Listen("tcp", opts.Address); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s.hosts = hostcheck.Listening(opts.Address, opts.AllowedHosts)
	if opts.TLS {
		if s.tls, s.authority, err = newCertificate(s.tcp.Addr(), s.hosts); err != nil {
			s.tcp.Close()
			return nil, fmt.Errorf("apiserver: making a certificate: %w", err)
		}
	}
	return s, nil
}

func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	if s.refusing.Load() {
		return nil, refused()
	}
	return s.memory.dial(ctx)
}

// Config returns what a client needs to reach the server: by its address if it has one,
// otherwise in memory. Client-side rate limits are off.
func (s *Server) Config() *rest.Config {
	if s.tcp == nil {
		return s.MemoryConfig()
	}
	cfg := &rest.Config{Host: "http://" + s.tcp.Addr().String(), QPS: -1}
	if s.tls != nil {
		cfg.Host = "https://" + s.tcp.Addr().String()
		cfg.CAData = s.authority
	}
	return cfg
}

// MemoryConfig returns what a client in this process needs to reach the server without
// a network. In a bubble of testing/synctest both must be made inside it.
func (s *Server) MemoryConfig() *rest.Config {
	return &rest.Config{Host: memoryHost, Transport: s.transport, QPS: -1}
}

// Addr returns the address that the server listens on, nil if there is none.
func (s *Server) Addr() net.Addr {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.Addr()
}

// Version returns the newest version.
func (s *Server) Version() uint64 { return s.storage.now() }

// RefuseConnections turns new connections away, or takes them again. Requests on old
// ones are cut; watches that are open stay open, see [Server.Cut].
func (s *Server) RefuseConnections(on bool) { s.refusing.Store(on) }

// Close stops listening. It is for a server that is never run.
func (s *Server) Close() error {
	s.mu.Lock()
	s.ran, s.closing = true, true
	s.mu.Unlock()
	_ = s.memory.Close() // never fails
	s.transport.CloseIdleConnections()
	if s.tcp != nil {
		return s.tcp.Close()
	}
	return nil
}

// Run answers requests until the context ends, and returns when the last connection has
// been closed. Its error is nil when it ended for the context's sake.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.ran {
		s.mu.Unlock()
		return ErrRan
	}
	s.ran = true
	s.mu.Unlock()

	base, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(s.handle), TLSConfig: s.tls, Protocols: new(http.Protocols),
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				conns.Done()
			}
		},
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)

	served := make(chan error, 2)
	listeners := 1
	go func() { served <- srv.Serve(s.memory) }()
	if s.tcp != nil {
		listeners++
		gate := &refusingListener{Listener: s.tcp, refusing: &s.refusing}
		go func() {
			if s.tls != nil {
				served <- srv.ServeTLS(gate, "", "")
			} else {
				served <- srv.Serve(gate)
			}
		}()
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
		listeners--
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	cancel() // ends the watches
	// Errors of closing are about connections that are lost anyway.
	_ = srv.Close()
	_ = s.memory.Close()
	for range listeners {
		if err := <-served; failed == nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			failed = err
		}
	}
	// A connection that was accepted while the server closed is known only now.
	_ = srv.Close()
	conns.Wait()
	s.handlers.Wait()
	s.transport.CloseIdleConnections()
	if failed != nil {
		return fmt.Errorf("apiserver: serving: %w", failed)
	}
	return nil
}

// handle keeps count of the requests that are being answered.
func (s *Server) handle(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	if s.closing || s.refusing.Load() {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s.handlers.Add(1)
	s.mu.Unlock()
	defer s.handlers.Done()
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler {
			s.opts.Logger.Error("a request made the server panic", "uri", req.URL.RequestURI(), "panic", p, "stack", string(debug.Stack()))
		}
		panic(http.ErrAbortHandler) // net/http drops the connection
	}()
	if err := s.checkHost(req); err != nil {
		s.refuse(w, req, err)
		return
	}
	s.ServeHTTP(w, req)
}

// refusingListener drops connections while they are to be refused. The port stays taken,
// so the client sees a reset.
type refusingListener struct {
	net.Listener
	refusing *atomic.Bool
}

// Accept implements [net.Listener].
func (l *refusingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || !l.refusing.Load() {
			return conn, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not a goodbye
		}
		_ = conn.Close() // it is dropped in any case
	}
}

// newUID makes a UUID, of chance that a seed can fix.
func (s *Server) newUID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.rand.Uint64(), s.rand.Uint64()
	a = a&^(0xf<<12) | 4<<12
	b = b&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffff_ffff_ffff)
}

// newSuffix makes the end of a generated name, without vowels and what looks alike.
func (s *Server) newSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	s.mu.Lock()
	defer s.mu.Unlock()
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[s.rand.IntN(len(letters))]
	}
	return string(suffix)
}
