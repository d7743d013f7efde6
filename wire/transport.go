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

// NewTransport returns a transport for [NewWithTransport]: HTTP/2 over TLS if the server
// supports it, pings after 30 s of silence, proxies from the environment, and a timeout for
// every phase that may hang. A nil TLS config trusts the system's CAs.
func NewTransport(tlsConfig *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   25,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // the client has a faster decompressor
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// usesDefaultTransport reports whether client-go would use http.DefaultTransport for the
// config.
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

// rereadRejectedToken changes a config so that its token file is read again after a 401.
// Otherwise client-go would send an expired token for up to a minute after it was replaced. It
// returns the current token. It leaves the config unchanged if the file cannot be read;
// client-go handles that error.
func rereadRejectedToken(cfg *rest.Config) string {
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

// gzipPool reuses decompressors, which are large.
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

// errAttemptTimeout is the cause of an attempt's context if the attempt took too long. It
// implements net.Error.
var errAttemptTimeout error = &attemptTimeout{}

type attemptTimeout struct{}

func (*attemptTimeout) Error() string   { return "no response within the timeout of one attempt" }
func (*attemptTimeout) Timeout() bool   { return true }
func (*attemptTimeout) Temporary() bool { return true }

// body is the decompressed body of a response. Closing it cancels the attempt's context. Only
// one goroutine may read; any may close.
type body struct {
	raw    io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   func() bool // of the attempt's timer; nil if there is none

	gzips   *gzipPool // nil if the body is not compressed
	secrets *secrets  // removed from errors

	observed *observation // ended by Close; nil if there is none

	mu     sync.Mutex // held while reading; guards all below
	gz     *gzip.Reader
	err    error // of the last read
	closed bool
}

// errClosed is the cause of the attempt's context after Close.
var errClosed = errors.New("the response body was closed")

// Read implements io.Reader. The error has no credentials.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errClosed
	}
	n, err := b.read(p)
	if err != nil && err != io.EOF {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		} else {
			err = b.secrets.hide(err)
		}
		b.err = err
	}
	return n, err
}

func (b *body) read(p []byte) (int, error) {
	if b.gzips == nil {
		return b.raw.Read(p)
	}
	if b.gz == nil {
		// Not before the first read, because reading the header may block.
		gz, err := b.gzips.get(b.raw)
		if err != nil {
			return 0, gzipError(err)
		}
		b.gz = gz
	}
	n, err := b.gz.Read(p)
	return n, gzipError(err)
}

// gzipError marks errors of the decompressor, as opposed to those of the network.
func gzipError(err error) error {
	var flaw flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &flaw) {
		return fmt.Errorf("%w: %w", object.ErrCorrupt, err)
	}
	return err
}

// Close ends the attempt and unblocks Read.
func (b *body) Close() error {
	b.cancel(errClosed)
	if b.stop != nil {
		b.stop()
	}
	err := b.raw.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.observed != nil {
		b.observed.end(b.err)
	}
	b.closed = true
	if b.gz != nil {
		b.gzips.put(b.gz)
		b.gz = nil
	}
	return err
}
