package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/tarnproject/tarn/object"
)

// NewTransport returns a transport as a client wants it: HTTP/2 where the server
// speaks it over TLS, pings on silent connections, proxies from the environment, and
// bounds on all that may hang. A nil TLS config stands for the system's authorities.
func NewTransport(tlsConfig *tls.Config, opts Options) *http.Transport {
	opts = opts.withDefaults()
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       opts.IdleConnTimeout,
		MaxIdleConnsPerHost:   25,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // done by the client, with a faster decompressor
	}
	if opts.PingInterval > 0 {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: opts.PingInterval, PingTimeout: opts.PingTimeout}
	}
	return t
}

// usesDefaultTransport reports whether client-go would send the config's requests
// through http.DefaultTransport.
func usesDefaultTransport(cfg *rest.Config) (bool, error) {
	if cfg.Transport != nil || cfg.Dial != nil || cfg.Proxy != nil {
		return false, nil
	}
	tc, err := cfg.TransportConfig()
	if err != nil {
		return false, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	return tlsConfig == nil && tc.DialHolder == nil, err
}

// readRefusedTokensAgain makes a config's token file be read again after a 401, so that a
// token that was replaced because it had ended is not missed for most of a minute. A file
// that cannot be read is left for client-go to complain about, or to do without. It returns
// the token that is in the file now.
func readRefusedTokensAgain(cfg *rest.Config) string {
	if cfg.BearerTokenFile == "" || cfg.Username != "" || cfg.Password != "" {
		return ""
	}
	tokens := transport.NewCachedFileTokenSource(cfg.BearerTokenFile)
	token, err := tokens.Token()
	if err != nil {
		return ""
	}
	cfg.BearerToken, cfg.BearerTokenFile = "", ""
	cfg.Wrap(transport.ResettableTokenSourceWrapTransport(tokens))
	return token.AccessToken
}

// gzipPool keeps decompressors, which are large, for the next answer.
type gzipPool struct{ pool sync.Pool }

func (p *gzipPool) get(r io.Reader) (*gzip.Reader, error) {
	if z, ok := p.pool.Get().(*gzip.Reader); ok {
		if err := z.Reset(r); err != nil {
			p.pool.Put(z)
			return nil, err
		}
		return z, nil
	}
	return gzip.NewReader(r)
}

func (p *gzipPool) put(z *gzip.Reader) { p.pool.Put(z) }

// errAttemptTimeout is why an attempt's context ended when the attempt took too
// long. It is a timeout as net.Error and os.ErrDeadlineExceeded callers know it.
var errAttemptTimeout error = &attemptTimeout{}

type attemptTimeout struct{}

func (*attemptTimeout) Error() string   { return "no answer within the timeout of one attempt" }
func (*attemptTimeout) Timeout() bool   { return true }
func (*attemptTimeout) Temporary() bool { return true }

// body is the body of an answer: decompressed, with an idle deadline, and tied to
// the attempt's context, which ends when it is closed. One goroutine reads; any may
// close.
type body struct {
	raw    io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   func() bool // of the attempt's timer; nil when there is none

	idle      time.Duration
	idleTimer *time.Timer // nil without idle deadline

	gzips   *gzipPool // nil for a body that is not compressed
	secrets *secrets  // what the text of an error must not show

	mu     sync.Mutex // held while reading; guards gz and closed
	gz     *gzip.Reader
	closed bool
}

// errClosed is the cause of a context that ended because the body was closed.
var errClosed = errors.New("the answer was closed")

func (b *body) setIdle(d time.Duration) {
	if d <= 0 {
		return
	}
	b.idle = d
	b.idleTimer = time.AfterFunc(d, func() {
		b.cancel(fmt.Errorf("%w: nothing for %v", object.ErrIdle, d))
	})
}

// Read reads decompressed bytes. Its error is io.EOF at the end, object.ErrIdle
// after a silence that was too long, and otherwise what the network said.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errClosed
	}
	n, err := b.read(p)
	if b.idleTimer != nil && n > 0 && b.ctx.Err() == nil {
		b.idleTimer.Reset(b.idle)
	}
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		} else {
			err = b.secrets.hide(err)
		}
	}
	return n, err
}

func (b *body) read(p []byte) (int, error) {
	if b.gzips == nil {
		return b.raw.Read(p)
	}
	if b.gz == nil {
		// Made at the first read: its header may be long in coming.
		gz, err := b.gzips.get(b.raw)
		if err != nil {
			return 0, gzipError(err)
		}
		b.gz = gz
	}
	n, err := b.gz.Read(p)
	return n, gzipError(err)
}

// gzipError marks what the decompressor objects to, as opposed to what the network
// does.
func gzipError(err error) error {
	var flaw flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &flaw) {
		return fmt.Errorf("%w: %w", object.ErrCorrupt, err)
	}
	return err
}

// Close ends the attempt and makes a waiting Read return.
func (b *body) Close() error {
	b.cancel(errClosed)
	if b.stop != nil {
		b.stop()
	}
	if b.idleTimer != nil {
		b.idleTimer.Stop()
	}
	err := b.raw.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.gz != nil {
		b.gzips.put(b.gz)
		b.gz = nil
	}
	return err
}
