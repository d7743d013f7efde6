package cli

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
)

// meter is a transport that measures responses.
type meter struct {
	next http.RoundTripper

	mu   sync.Mutex // guards seen
	seen traffic
}

// traffic is what a meter measured since it was last read.
type traffic struct {
	proto string // protocol of the last response, such as "HTTP/2.0"
	tls   string // its TLS version; empty without TLS
	// bytes is the size of all bodies on the wire, packed that of the compressed ones.
	bytes, packed int64
}

// take returns the measurements and resets them.
func (m *meter) take() traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.seen
	m.seen = traffic{}
	return seen
}

// RoundTrip implements [http.RoundTripper].
func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.proto, m.seen.tls = resp.Proto, ""
	if resp.TLS != nil {
		m.seen.tls = tls.VersionName(resp.TLS.Version)
	}
	resp.Body = &meteredBody{ReadCloser: resp.Body, meter: m, packed: strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip")}
	return resp, nil
}

// WrappedRoundTripper exposes the underlying transport to client-go.
func (m *meter) WrappedRoundTripper() http.RoundTripper { return m.next }

// CloseIdleConnections closes those of the underlying transport.
func (m *meter) CloseIdleConnections() {
	if c, ok := m.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type meteredBody struct {
	io.ReadCloser
	meter  *meter
	packed bool
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.mu.Lock()
	b.meter.seen.bytes += int64(n)
	if b.packed {
		b.meter.seen.packed += int64(n)
	}
	b.meter.mu.Unlock()
	return n, err
}
