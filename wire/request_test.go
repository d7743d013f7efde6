package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRequestsGoToTheirPaths(t *testing.T) {
	c := inMemory(t, Options{}, nil)
	deployments := object.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	roles := object.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Kind: "ClusterRole"}
	for want, r := range map[string]*Request{
		"/api/v1/namespaces/shop/pods/web":                                  c.Request(VerbGet).Resource(podResource).Key(webKey),
		"/api/v1/namespaces/shop/pods/web/log":                              c.Request(VerbGet).Resource(podResource).Key(object.Key{Namespace: "shop", Name: "web"}).Subresource("log"),
		"/api/v1/pods":                                                      c.Request(VerbList).Resource(podResource),
		"/api/v1/pods?watch=true":                                           c.Request(VerbWatch).Resource(podResource).Param("watch", "true").Param("labelSelector", ""),
		"/api/v1/namespaces/shop/pods":                                      c.Request(VerbCreate).Resource(podResource).Key(object.Key{Namespace: "shop"}),
		"/api/v1/nodes/n1/proxy/metrics":                                    c.Request("get").Resource(nodeResource).Key(object.Key{Name: "n1"}).Subresource("proxy/metrics"),
		"/apis/apps/v1/namespaces/shop/deployments?labelSelector=a%3Db%2Cc": c.Request(VerbDeleteCollection).Resource(deployments).Key(object.Key{Namespace: "shop"}).Param("labelSelector", "a=b,c"),
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%3F":    c.Request(VerbGet).Resource(roles).Key(object.Key{Name: "system:node?"}),
		"/healthz": c.Request("GET").AbsPath("/healthz"),
	} {
		u, err := r.URL()
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := strings.TrimPrefix(u.String(), "https://server"); got != want {
			t.Errorf("the request goes to %s, want %s", got, want)
		}
	}
}

func TestAnInvalidRequestIsNotSent(t *testing.T) {
	c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s was sent", r.URL)
		return nil, errors.New("sent")
	})
	pods := func(v Verb) *Request { return c.Request(v).Resource(podResource) }
	for want, r := range map[string]*Request{
		"neither a verb":                 c.Request("fetch").AbsPath("/x"),
		"start with a slash":             c.Request(VerbGet).AbsPath("healthz"),
		"neither a path":                 c.Request(VerbGet),
		"both a path and":                pods(VerbGet).Key(webKey).AbsPath("/x"),
		"set the namespace":              pods(VerbGet).Key(object.Key{Name: "web"}),
		"pods are namespaced":            pods(VerbDeleteCollection),
		"cluster-scoped":                 c.Request(VerbGet).Resource(nodeResource).Key(webKey),
		"name of the object":             pods(VerbGet).Key(object.Key{Namespace: "shop"}),
		"takes no name":                  pods(VerbDeleteCollection).Key(webKey),
		"subresource eviction: the name": pods(VerbCreate).Key(object.Key{Namespace: "shop"}).Subresource("eviction"),
		`"a/b" cannot be part`:           pods(VerbGet).Key(object.Key{Namespace: "shop", Name: "a/b"}),
		`".." cannot be part`:            pods(VerbGet).Key(object.Key{Namespace: "..", Name: "web"}),
		`"a%2fb" cannot be part`:         pods(VerbDelete).Key(object.Key{Namespace: "shop", Name: "a%2fb"}),
		`has a segment ".."`:             pods(VerbGet).Key(webKey).Subresource("proxy/../../x"),
		`segment ".."`:                   c.Request(VerbGet).AbsPath("/api/../secret"),
	} {
		var failed *TransportError
		if _, err := r.Do(t.Context()); !errors.As(err, &failed) || !strings.Contains(err.Error(), want) {
			t.Errorf("Do: %v; want %q in it", err, want)
		}
		if _, err := r.Stream(t.Context()); err == nil {
			t.Errorf("Stream accepts what Do rejects: %q", want)
		}
	}
}

func TestVerbsHaveTheirMethods(t *testing.T) {
	for v, want := range map[Verb]string{
		VerbGet: "GET", VerbList: "GET", VerbWatch: "GET", VerbCreate: "POST", VerbUpdate: "PUT", VerbPatch: "PATCH",
		VerbDelete: "DELETE", VerbDeleteCollection: "DELETE", "POST": "POST", "head": "HEAD",
	} {
		if got := v.method(); got != want {
			t.Errorf("%s is sent as %s, want %s", v, got, want)
		}
	}
}

func TestDoSendsBodyAndHeadersAndReadsTheResponse(t *testing.T) {
	c := serve(t, Options{UserAgent: "shopkeeper"}, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || string(data) != "ping" || r.Header.Get("Content-Type") != "text/plain" ||
			r.Header.Get("X-Note") != "n" || r.Header.Get("User-Agent") != "shopkeeper" || r.ContentLength != 4 {
			t.Errorf("got %s %q with %v", r.Method, data, r.Header)
		}
		w.Header().Set("X-Reply", "r")
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, "pong")
	})
	res, err := c.Request("POST").AbsPath("/echo").Header("X-Note", "n").Body("text/plain", []byte("ping")).Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if res.Code != 202 || string(res.Raw()) != "pong" || res.Header.Get("X-Reply") != "r" {
		t.Errorf("the answer is %d %q %v", res.Code, res.Raw(), res.Header)
	}
}

func TestGzipIsRequestedAndDecompressed(t *testing.T) {
	text := strings.Repeat("compress me. ", 1000)
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("Accept-Encoding is %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, zipped(t, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404,"message":"gone fishing"}`))
			return
		}
		io.WriteString(w, zipped(t, text))
	})
	for range 3 { // decompressors are reused
		res, err := c.Request(VerbGet).AbsPath("/text").Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(res.Raw()) != text {
			t.Errorf("%d bytes came back, want %d", len(res.Raw()), len(text))
		}
	}
	resp, err := c.Request(VerbGet).AbsPath("/text").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err != nil || string(data) != text || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("the stream has %d bytes, %v, %q", len(data), err, resp.Header.Get("Content-Encoding"))
	}
	if _, err := c.Request(VerbGet).AbsPath("/missing").Do(t.Context()); err == nil || !strings.Contains(err.Error(), "gone fishing") {
		t.Errorf("a compressed error is %v", err)
	}
}

func TestGzipCanBeTurnedOff(t *testing.T) {
	c := serve(t, Options{DisableCompression: true}, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding is %q", got)
		}
	})
	if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenGzipIsCorrupt(t *testing.T) {
	good := zipped(t, strings.Repeat("0123456789", 5000))
	flipped := []byte(good)
	flipped[len(flipped)-6] ^= 0xff // in the checksum
	for name, body := range map[string]string{"no gzip at all": "plain text", "wrong checksum": string(flipped)} {
		c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
			return wiretest.Response(r, 200, body, "Content-Encoding", "gzip"), nil
		})
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	attempts := 0
	c := inMemory(t, Options{Retry: Retry{Max: 1, Base: 1}}, func(r *http.Request) (*http.Response, error) {
		attempts++
		return wiretest.Response(r, 200, good[:len(good)/2], "Content-Encoding", "gzip"), nil
	})
	if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) || attempts != 2 {
		t.Errorf("cut off, after %d attempts: %v", attempts, err)
	}
}

func TestABodyIsReadUpToItsLimit(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		c := serve(t, Options{MaxBody: 1000}, func(w http.ResponseWriter, r *http.Request) {
			text := strings.Repeat("x", 1000)
			if r.URL.Path == "/long" {
				text += "x"
			}
			if compressed {
				w.Header().Set("Content-Encoding", "gzip")
				text = zipped(t, text)
			}
			io.WriteString(w, text)
		})
		if res, err := c.Request(VerbGet).AbsPath("/short").Do(t.Context()); err != nil || len(res.Raw()) != 1000 {
			t.Errorf("compressed %v: a body of the limit: %v", compressed, err)
		}
		if _, err := c.Request(VerbGet).AbsPath("/long").Do(t.Context()); !errors.Is(err, ErrBodyTooLarge) {
			t.Errorf("compressed %v: a longer body: %v", compressed, err)
		}
	}
}

func TestAnAttemptTimesOut(t *testing.T) {
	for name, inBody := range map[string]bool{"before the headers": false, "in the body": true} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			c := serve(t, Options{Timeout: 20 * time.Millisecond, Retry: Retry{Max: -1}}, func(w http.ResponseWriter, r *http.Request) {
				if inBody {
					io.WriteString(w, "begin")
					w.(http.Flusher).Flush()
				}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			defer close(release)
			_, err := c.Request(VerbGet).AbsPath("/slow").Do(t.Context())
			var timeout interface{ Timeout() bool }
			if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// pipe returns a response whose body the test writes. It ends with the request.
func pipe(r *http.Request) (*http.Response, *io.PipeWriter) {
	pr, pw := io.Pipe()
	context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
	resp := wiretest.Response(r, 200, "")
	resp.Body, resp.ContentLength = pr, -1
	return resp, pw
}

func TestAStreamOutlivesTheTimeoutOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pw *io.PipeWriter
		c := inMemory(t, Options{Timeout: time.Second}, func(r *http.Request) (resp *http.Response, _ error) {
			resp, pw = pipe(r)
			return resp, nil
		})
		resp, err := c.Request(VerbWatch).AbsPath("/stream").Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		time.AfterFunc(time.Hour, func() { io.WriteString(pw, "late"); pw.Close() })
		if data, err := io.ReadAll(resp.Body); string(data) != "late" || err != nil {
			t.Errorf("read %q, %v", data, err)
		}
	})
}

func TestClosingAStreamUnblocksRead(t *testing.T) {
	gone := make(chan struct{})
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	resp, err := c.Request(VerbWatch).AbsPath("/stream").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	begun, done := make(chan struct{}), make(chan error)
	go func() {
		buf := make([]byte, 5)
		io.ReadFull(resp.Body, buf)
		close(begun)
		_, err := resp.Body.Read(buf)
		done <- err
	}()
	<-begun
	resp.Body.Close()
	if err := <-done; err == nil {
		t.Error("the read returned without an error")
	}
	<-gone
	resp.Body.Close() // closing twice is allowed
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("a closed body can be read")
	}
}

func TestTheContextEndsAStream(t *testing.T) {
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.Request(VerbWatch).AbsPath("/stream").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("the stream: %v", err)
	}
}

func TestADeadlineEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done() // no response
			return nil, r.Context().Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var failed *TransportError
		if _, err := c.Request(VerbGet).AbsPath("/hang").Do(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failed) || failed.Attempts != 1 {
			t.Errorf("the request: %v", err)
		}
	})
}

func TestAnEndlessErrorResponseIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
			resp, pw := pipe(r)
			resp.StatusCode = http.StatusForbidden
			go io.WriteString(pw, "no, because")
			return resp, nil
		})
		_, err := c.Request(VerbWatch).AbsPath("/x").Timeout(0).Stream(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no, because") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestEscapedSlashesOfTheServerURLAreKept(t *testing.T) {
	base := wiretest.Must(url.Parse("https://server/clusters/a%2Fb/"))(t)
	c := wiretest.Must(NewWithTransport(base, nil, Options{}))(t)
	u := wiretest.Must(c.Request(VerbGet).AbsPath("/x y").URL())(t)
	if u.String() != "https://server/clusters/a%2Fb/x%20y" {
		t.Errorf("the request goes to %s", u)
	}
}
