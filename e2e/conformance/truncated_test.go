package conformance

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// truncate loses the connection in the middle of some answers.
func truncate(config *rest.Config, answers int32, after int, hits func(query string) bool) *rest.Config {
	var left atomic.Int32
	left.Store(answers)
	return through(config, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err == nil && hits(req.URL.RawQuery) && left.Add(-1) >= 0 {
			res.Body = &shortBody{res.Body, after}
		}
		return res, err
	})
}

// shortBody ends before its end.
type shortBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *shortBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestTruncated cuts answers off: what was read of them must leave no trace.
func TestTruncated(t *testing.T) {
	watch := func(query string) bool { return strings.Contains(query, "watch=") }
	streaming := func(query string) bool { return strings.Contains(query, "sendInitialEvents=true") }
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		w.create("b", "0")
		w.create("c", "0")
		for _, encoding := range []wire.Encoding{wire.JSON, wire.Protobuf} {
			start := func(t *testing.T, config *rest.Config, mode reflector.Mode) *mirror[*corev1.ConfigMap] {
				w.t = t
				m := startMirror(t, config, configMaps.Encoded(encoding), mirrorOptions[*corev1.ConfigMap]{
					selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*corev1.ConfigMap]{Streaming: mode},
				})
				m.same(t, s)
				return m
			}
			once := func(t *testing.T, m *mirror[*corev1.ConfigMap]) {
				t.Helper()
				for _, name := range []string{"a", "b", "c"} {
					m.receives(t, "add "+name)
					if n := m.times("add " + name); n != 1 {
						t.Errorf("received %d additions of %s", n, name)
					}
				}
				if c := m.reflector().Counts; c.Lists != 1 || c.Waits == 0 {
					t.Errorf("%d complete lists, %d waits", c.Lists, c.Waits)
				}
			}
			t.Run("L10 a list, "+string(encoding), func(t *testing.T) {
				once(t, start(t, truncate(s.config, 2, 300, func(query string) bool { return !watch(query) }), reflector.StreamingOff))
			})
			t.Run("W04 a streaming list, "+string(encoding), func(t *testing.T) {
				once(t, start(t, truncate(s.config, 2, 300, streaming), reflector.StreamingOn))
			})
			t.Run("W20 an event, "+string(encoding), func(t *testing.T) {
				m := start(t, truncate(s.config, 2, 100, watch), reflector.StreamingOff)
				m.watches(t)
				m.reaches(t, w.update("a", "1-"+string(encoding)))
				m.same(t, s)
				if c := m.reflector().Counts; c.Lists != 1 {
					t.Errorf("%d lists", c.Lists)
				}
				m.receives(t, "update a")
				if n := m.times("update a"); n != 1 {
					t.Errorf("received %d updates", n)
				}
			})
		}
	})
}
