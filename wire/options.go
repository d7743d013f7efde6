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
	// UserAgent is sent with every request. The server uses the part before the first slash
	// as the field manager of writes that name none. Defaults to that of the rest.Config,
	// or else to the program's name and version.
	UserAgent string
	// Timeout limits one attempt of a request; for a stream, the time until its headers
	// arrive. The context limits all attempts together. Negative means no limit. Defaults
	// to the timeout of the rest.Config, or else to 70 s, because an API server itself
	// gives up after 60 s.
	Timeout time.Duration
	// Retry limits retries. Defaults to the zero Retry.
	Retry Retry
	// Limiter is called before each attempt. Several clients can share one; *rate.Limiter
	// implements it. Defaults to the one that the rest.Config sets explicitly, or else to
	// none.
	Limiter Limiter
	// Warnings receives the Warning headers of the server, each text once. It is called on
	// the goroutine of the request and must not block. Defaults to the handler of the
	// rest.Config, or else to logging.
	Warnings func(Warning)
	// DisableCompression stops requesting compressed responses. Defaults to false: the
	// client accepts gzip.
	DisableCompression bool
	// MaxBody is the maximum size of a response that is read as a whole, after
	// decompression; streams have their own limits. Defaults to 64 MiB.
	MaxBody int64
	// Observers are called around each attempt: in order before it is sent, and in reverse
	// order when it has ended. Defaults to none.
	Observers []Observer
	// Logger receives warnings if Warnings is not set, and retries at debug level.
	// Defaults to discarding them.
	Logger *slog.Logger
}

// Limiter limits the rate of requests. [NewLimiter] returns a token bucket. Implementations
// must be safe for concurrent use.
type Limiter interface {
	// Wait blocks until a request may be sent. It returns an error if the context is done
	// first.
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Retry = o.Retry.withDefaults()
	return o
}

// valid returns an error that names the first invalid field.
func (o Options) valid() error {
	if o.MaxBody < 0 {
		return errors.New("wire: Options.MaxBody is negative; leave it 0 for the default")
	}
	return o.Retry.valid()
}

// defaultUserAgent returns the program's name and version, and this library.
func defaultUserAgent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = info.Main.Version
	}
	return fmt.Sprintf("%s/%s tarn (%s/%s)", filepath.Base(os.Args[0]), version, runtime.GOOS, runtime.GOARCH)
}
