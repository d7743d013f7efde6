package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/admission"
	"github.com/tarnproject/tarn/apiserver/internal/certificate"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/discovery"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/memory"
	"github.com/tarnproject/tarn/apiserver/internal/ownership"
	"github.com/tarnproject/tarn/apiserver/internal/registry"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/response"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/internal/hostcheck"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// memoryHost is the host name for in-memory connections. It never resolves.
const memoryHost = "http://tarn.invalid"

// Server is an in-process API server. [New] creates it and opens its listeners,
// [Server.Run] serves them. All other methods may be called from any goroutine at any time,
// also before and after Run.
type Server struct {
	opts       Options
	storage    *storage.Storage
	catalog    *kinds.Catalog
	codecs     *codec.Codecs
	faults     faults
	requests   requestLog
	access     *access.Control
	out        *response.Responder
	names      *registry.Names
	registry   *registry.Registry
	discovery  *discovery.Discovery
	features   request.ListFeatures
	webhooks   *admission.Webhooks
	standstill standstill

	tcp       net.Listener // nil without Options.Address
	tls       *tls.Config  // nil without TLS
	authority []byte       // CA certificate in PEM
	address   string       // Options.Address
	hosts     []string     // allowed besides loopback; not modified after New
	memory    *memory.Listener
	transport *http.Transport // dials memory
	refusing  atomic.Bool

	firstChange uint64  // version when New returned
	plan        planner // of supervised programs; set before the first, nil outside of Explore

	mu      sync.Mutex // guards ran, closing
	ran     bool
	closing bool

	handlers sync.WaitGroup

	// report fails the test passed to Start. It is set before Run and called only by
	// handlers, which have all returned when Run returns.
	report   func(format string, args ...any)
	panicked sync.Once // only the first panic fails the test; all are logged
}

// New creates a server with the standard namespaces and listens on Options.Address, if set.
// Requests are not served until [Server.Run]. A server that is never run must be closed.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	s := &Server{
		opts: opts, storage: storage.New(opts.History, opts.HistoryBytes, opts.OldServer), codecs: codec.New(),
		catalog: kinds.NewCatalog(), memory: memory.NewListener(),
		names: registry.NewNames(opts.Seed), faults: faults{injected: map[FaultKind]int{}}, standstill: standstill{limit: equalAtOnce},
	}
	s.out = response.New(s.codecs, opts.Logger, s.requests.answered)
	s.discovery = discovery.New(s.catalog, s.codecs, s.out)
	s.features = request.ListFeatures{Streaming: !opts.NoStreamingLists, Sharding: !opts.NoSharding}
	s.access = access.New(opts.RBAC, s.storage, s.catalog, s.names.UID, s.requests.denied)
	s.catalog.Put(kinds.Builtins(opts.Strict, opts.Schemas)...)
	var err error
	if s.webhooks, err = admission.NewWebhooks(admission.Options{
		Storage: s.storage, Catalog: s.catalog, Codecs: s.codecs, Access: s.access, Logger: opts.Logger, NewUID: s.names.UID, Go: s.handlers.Go, Calling: callingWebhook,
	}); err != nil {
		return nil, err
	}
	if s.registry, err = registry.New(registry.Parts{
		Schemas: opts.Schemas, Strict: opts.Strict, CollectGarbage: opts.CollectGarbage, KeepNamespaces: opts.KeepNamespaces,
		NoControllers: opts.NoControllers, AnyNamespace: opts.AnyNamespace,
		Storage: s.storage, Catalog: s.catalog, Codecs: s.codecs, Ownership: ownership.New(), Access: s.access, Webhooks: s.webhooks,
		Out: s.out, Names: s.names, Features: s.features, Pace: s.paceCreate,
	}); err != nil {
		return nil, err
	}
	for _, name := range []string{metav1.NamespaceDefault, "kube-node-lease", metav1.NamespacePublic, metav1.NamespaceSystem} {
		if _, err := s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	if opts.RBAC {
		roles, err := s.access.Start(!opts.NoRoleAggregation)
		if err != nil {
			return nil, err
		}
		for _, obj := range roles {
			if _, err := s.Create(obj); err != nil {
				return nil, err
			}
		}
	}
	s.firstChange = s.storage.Now()
	s.transport = s.newTransport(s.dial)
	if opts.Address == "" {
		return s, s.startStrict()
	}
	if s.tcp, err = net.Listen("tcp", opts.Address); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s.address, s.hosts = opts.Address, hostcheck.Listening(opts.Address, opts.AllowedHosts)
	if opts.TLS {
		if s.tls, s.authority, err = certificate.New(s.tcp.Addr(), s.hosts); err != nil {
			s.tcp.Close()
			return nil, fmt.Errorf("apiserver: creating certificate: %w", err)
		}
	}
	return s, s.startStrict()
}

// newTransport returns a transport for in-memory connections.
func (s *Server) newTransport(dial func(context.Context) (net.Conn, error)) *http.Transport {
	t := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxIdleConnsPerHost: 64,
	}
	if s.opts.HTTP2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t
}

func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	if s.refusing.Load() {
		return nil, s.refuseDial(ctx)
	}
	conn, err := s.memory.Dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Config returns a client config for the server's address or, without one, for in-memory
// connections. Client-side rate limits are disabled.
func (s *Server) Config() *rest.Config {
	if s.tcp == nil {
		return s.MemoryConfig()
	}
	address := hostcheck.Reachable(s.address, s.tcp.Addr())
	cfg := &rest.Config{Host: "http://" + address, QPS: -1, BearerToken: s.access.AdminToken()}
	if s.tls != nil {
		cfg.Host = "https://" + address
		cfg.CAData = s.authority
	}
	return cfg
}

// MemoryConfig returns a client config for in-memory connections. Under testing/synctest,
// create both the server and the config inside the bubble.
func (s *Server) MemoryConfig() *rest.Config {
	return &rest.Config{Host: memoryHost, Transport: s.transport, QPS: -1, BearerToken: s.access.AdminToken()}
}

// Addr returns the listening address, or nil if there is none.
func (s *Server) Addr() net.Addr {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.Addr()
}

// Version returns the current resource version.
func (s *Server) Version() uint64 { return s.storage.Now() }

// RefuseConnections turns connection refusal on or off. While it is on, new connections are
// refused and requests on existing ones are cut. Open watches stay open; see [Server.Cut].
func (s *Server) RefuseConnections(on bool) { s.refusing.Store(on) }

// Close closes the listeners of a server that is never run.
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

// Run serves requests until ctx ends and returns after the last connection is closed. It
// returns nil if ctx ended, and an error if the server was run or closed before.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.ran {
		s.mu.Unlock()
		return errors.New("apiserver: server was already run or closed")
	}
	s.ran = true
	s.mu.Unlock()

	base, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(s.handle), TLSConfig: s.tls, Protocols: new(http.Protocols),
		ReadHeaderTimeout: response.HeadTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withProcess,
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
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
	cancel() // ends watches
	// Errors are about connections that are being dropped anyway.
	_ = srv.Close()
	_ = s.memory.Close()
	for range listeners {
		if err := <-served; failed == nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			failed = err
		}
	}
	// Connections accepted during the first Close are closed now.
	_ = srv.Close()
	conns.Wait()
	s.handlers.Wait()
	s.transport.CloseIdleConnections()
	if failed != nil {
		return fmt.Errorf("apiserver: serving: %w", failed)
	}
	return nil
}

// handle counts requests in flight and recovers from panics.
func (s *Server) handle(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	if p := processOf(req); s.closing || s.refusing.Load() || p != nil && p.isKilled() {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s.handlers.Add(1)
	s.mu.Unlock()
	defer s.handlers.Done()
	s.paceRequest(req)
	response.LimitBody(w, req)
	tracked := &trackingWriter{ResponseWriter: w}
	defer s.recovered(tracked, req)
	if err := s.checkHost(req); err != nil {
		s.out.Error(tracked, req, err)
		return
	}
	s.ServeHTTP(tracked, req)
}

// recovered reports a handler's panic and responds with 500 if nothing has been sent.
func (s *Server) recovered(w *trackingWriter, req *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p) // net/http drops the connection
	}
	stack := debug.Stack()
	s.opts.Logger.Error("handler panicked", "uri", req.URL.RequestURI(), "panic", p, "stack", string(stack))
	s.panicked.Do(func() {
		if s.report != nil {
			s.report("apiserver: %s %s: handler panicked: %v\n%s", req.Method, req.URL.RequestURI(), p, stack)
		}
	})
	if w.wrote {
		panic(http.ErrAbortHandler)
	}
	s.out.Error(w, req, apierrors.NewInternalError(fmt.Errorf("handler panicked: %v", p)))
}

// trackingWriter records whether the response has begun, and its status.
type trackingWriter struct {
	http.ResponseWriter
	wrote bool
	code  int
}

// Unwrap supports [http.ResponseController].
func (b *trackingWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (b *trackingWriter) WriteHeader(code int) {
	b.wrote, b.code = true, code
	b.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (b *trackingWriter) Write(p []byte) (int, error) {
	b.wrote = true
	return b.ResponseWriter.Write(p)
}

// refusingListener resets connections while RefuseConnections is on. It keeps the port
// open.
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
			_ = tcp.SetLinger(0) // send RST instead of FIN
		}
		_ = conn.Close() // dropped either way
	}
}
