package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// writeTimeout is how long a response may take. A handler that takes longer extends it with
	// http.ResponseController.
	writeTimeout = time.Minute
	// shutdownGrace is how long requests may take to finish during shutdown.
	shutdownGrace = 5 * time.Second
)

// Server serves a handler over HTTP. It is a controller.Runner: among those of controller.Run it
// stops after the controllers, so that it still responds while they drain.
type Server struct {
	// Addr is the address to listen on, such as ":8080" or "127.0.0.1:0".
	// Defaults to ":8080".
	Addr string
	// Listener is used instead of Addr if it is set. Run closes it.
	Listener net.Listener
	// Handler responds to requests. Defaults to 404 for all.
	Handler http.Handler
	// Logger receives panics of handlers and failed connections, and the token that a [Guard] without
	// one requires if Addr is not a loopback address. Defaults to none; such a guard then rejects all
	// requests.
	Logger *slog.Logger
}

// Serve serves a handler on an address until the context is done; see [Server].
func Serve(ctx context.Context, addr string, h http.Handler) error {
	return (&Server{Addr: addr, Handler: h}).Run(ctx)
}

// Run serves until the context is done, which also ends the contexts of requests. It then accepts
// no new requests and gives running ones five seconds to finish. It returns nil after that, and an
// error if it cannot listen.
func (s *Server) Run(ctx context.Context) error {
	l, err := s.listen()
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	handler, logger := s.Handler, s.Logger
	if handler == nil {
		handler = http.NotFoundHandler()
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	at := listeningOn(l.Addr(), s.Logger)
	srv := &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return context.WithValue(ctx, listeningKey{}, at) },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: writeTimeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	stopped := make(chan struct{})
	unused := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
	err = srv.Serve(l)
	if unused() { // Serve failed on its own
		return errors.Join(fmt.Errorf("console: %w", err), srv.Close())
	}
	<-stopped
	return nil
}

func (s *Server) listen() (net.Listener, error) {
	if s.Listener != nil {
		return s.Listener, nil
	}
	return net.Listen("tcp", cmp.Or(s.Addr, ":8080"))
}
