package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// tlsServer starts a TLS server, with or without HTTP/2, and returns a client for it.
func tlsServer(t *testing.T, http2 bool, opts Options, h http.HandlerFunc) (*httptest.Server, *http.Transport, *Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	tr := NewTransport(&tls.Config{RootCAs: roots})
	t.Cleanup(tr.CloseIdleConnections)
	return s, tr, wiretest.Must(NewWithTransport(wiretest.Must(url.Parse(s.URL))(t), tr, opts))(t)
}

func TestTheSameRequestsWorkOverEveryProtocol(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Proto", r.Proto)
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, zipped(t, "echo "+string(data)))
	}
	_, _, h1 := tlsServer(t, false, Options{}, handler)
	_, _, h2 := tlsServer(t, true, Options{}, handler)
	for _, c := range []struct {
		proto  string
		client *Client
	}{{"HTTP/1.1", serve(t, Options{}, handler)}, {"HTTP/1.1", h1}, {"HTTP/2.0", h2}} {
		for range 2 {
			res, err := c.client.Request(VerbUpdate).AbsPath("/x").Body("text/plain", []byte("me")).Do(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", c.proto, err)
			}
			if got := res.Header.Get("X-Proto"); got != c.proto || string(res.Raw()) != "echo me" {
				t.Errorf("%s: %s %q", c.proto, got, res.Raw())
			}
		}
	}
}

// gate is a server's connection whose traffic can be stopped, as by a firewall that drops its
// packets: nothing arrives, and neither side gets an error.
type gate struct {
	net.Conn
	shut chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	select {
	case <-g.shut:
		return 0, errors.New("the gate is shut") // the server stops reading
	default:
		return n, err
	}
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case <-g.shut:
		return len(p), nil // dropped
	default:
		return g.Conn.Write(p)
	}
}

// Close leaves the connection open, so that the client does not notice.
func (g *gate) Close() error {
	select {
	case <-g.shut:
		return nil
	default:
		return g.Conn.Close()
	}
}

// gates is a listener in memory whose connections are gates.
type gates struct {
	shut  chan struct{}
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	last  net.Conn // behind the gate; owned by the dialling goroutine until the test has a response
}

func (g *gates) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	g.last = far
	select {
	case g.conns <- &gate{far, g.shut}:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *gates) Accept() (net.Conn, error) {
	select {
	case c := <-g.conns:
		return c, nil
	case <-g.done:
		return nil, net.ErrClosed
	}
}

func (g *gates) Close() error {
	g.once.Do(func() { close(g.done) })
	return nil
}

func (g *gates) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// In virtual time, because a busy machine may answer a ping later than any deadline.
func TestPingsDetectADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		s.Listener.Close()
		g := &gates{shut: make(chan struct{}), conns: make(chan net.Conn), done: make(chan struct{})}
		s.Listener = g
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{SessionTicketsDisabled: true} // a pipe does not buffer, and the tickets are not read
		s.StartTLS()
		defer s.Close()
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		tr := NewTransport(&tls.Config{RootCAs: roots})
		tr.DialContext = g.dial
		defer tr.CloseIdleConnections()
		c := wiretest.Must(NewWithTransport(wiretest.Must(url.Parse(s.URL))(t), tr, Options{}))(t)

		resp, err := c.Request(VerbWatch).AbsPath("/stream").Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Fatalf("the request used %s", resp.Proto)
		}
		close(g.shut)
		began := time.Now()
		_, err = resp.Body.Read(make([]byte, 1)) // blocks forever without pings
		if err == nil || outcomeOf(err) != lost || time.Since(began) != 45*time.Second {
			t.Errorf("after %v the read ended with %v", time.Since(began), err)
		}
		g.last.Close() // because the gate does not
	})
}

func TestManyStreamsShareOneHTTP2Connection(t *testing.T) {
	_, _, c := tlsServer(t, true, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.RemoteAddr)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	var addr string
	for i := range 20 {
		resp, err := c.Request(VerbWatch).AbsPath("/stream").Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 64)
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			addr = string(buf[:n])
		} else if got := string(buf[:n]); got != addr {
			t.Errorf("stream %d came by %s, the first by %s", i, got, addr)
		}
	}
}
