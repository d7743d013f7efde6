package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Options configure a [Client]. The zero Options work.
type Options struct {
	// UserAgent is sent with every request. The server takes what stands before its
	// first slash for the field manager of writes that name none. Defaults to that
	// of the rest.Config, or else to the program's name and version.
	UserAgent string
	// Timeout bounds one attempt of a request, and for a stream the time until its
	// headers arrive. The context bounds all attempts together. Negative means no
	// bound. Defaults to the timeout of the rest.Config, or else to 70 s: an API
	// server itself gives up after 60 s.
	Timeout time.Duration
	// Retry bounds how often a request is sent again. Defaults to the zero Retry.
	Retry Retry
	// Limiter is asked before each attempt. One limiter may serve several clients;
	// *rate.Limiter is one. Defaults to what the rest.Config sets explicitly, or
	// else to none.
	Limiter Limiter
	// Backoff holds requests back while a server is overloaded. One may serve
	// several clients. Defaults to none.
	Backoff BackoffManager
	// Warnings receives what the server says in Warning headers, each text once.
	// It is called from the goroutine of the request and must not block. Defaults
	// to the handler of the rest.Config, or else to logging.
	Warnings func(Warning)
	// DisableCompression stops asking for compressed answers. Defaults to false:
	// gzip is accepted.
	DisableCompression bool
	// MaxBody bounds an answer that is read whole, after decompression; streams
	// have bounds of their own. Defaults to 64 MiB.
	MaxBody int64
	// PingInterval is the silence after which an HTTP/2 connection is checked with
	// a ping. It applies to transports made here; see [New]. Negative means no
	// pings. Defaults to 30 s.
	PingInterval time.Duration
	// PingTimeout is how long an answer to a ping may take before the connection
	// counts as lost. Defaults to 15 s.
	PingTimeout time.Duration
	// IdleConnTimeout is how long an unused connection is kept. It applies to
	// transports made here. Defaults to 90 s.
	IdleConnTimeout time.Duration
	// Logger receives warnings that nobody else handles, and retries at debug
	// level. Defaults to silence.
	Logger *slog.Logger
}

// Limiter decides when the next request may be sent. [NewLimiter] makes a token
// bucket. Implementations are safe for use by several goroutines.
type Limiter interface {
	// Wait returns when a request may be sent, or with an error when the context
	// ends first.
	Wait(ctx context.Context) error
}

// withDefaults returns the options with every zero field set.
func (o Options) withDefaults() Options {
	if o.UserAgent == "" {
		o.UserAgent = defaultUserAgent()
	}
	if o.Timeout == 0 {
		o.Timeout = 70 * time.Second
	}
	if o.MaxBody == 0 {
		o.MaxBody = 64 << 20
	}
	if o.PingInterval == 0 {
		o.PingInterval = 30 * time.Second
	}
	if o.PingTimeout == 0 {
		o.PingTimeout = 15 * time.Second
	}
	if o.IdleConnTimeout == 0 {
		o.IdleConnTimeout = 90 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Retry = o.Retry.withDefaults()
	return o
}

// Valid returns an error that names the first field with an impossible value.
func (o Options) Valid() error {
	switch {
	case o.MaxBody < 0:
		return errors.New("wire: Options.MaxBody is negative; leave it 0 for the default")
	case o.PingTimeout < 0:
		return errors.New("wire: Options.PingTimeout is negative; set PingInterval to a negative value to turn pings off")
	case o.IdleConnTimeout < 0:
		return errors.New("wire: Options.IdleConnTimeout is negative; leave it 0 for the default")
	}
	return o.Retry.valid()
}

// defaultUserAgent names the program, its version and this library.
func defaultUserAgent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = info.Main.Version
	}
	return fmt.Sprintf("%s/%s tarn (%s/%s)", filepath.Base(os.Args[0]), version, runtime.GOOS, runtime.GOARCH)
}
