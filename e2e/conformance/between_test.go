package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// through returns a config whose requests all go through trip, which sends them by next.
func through(config *rest.Config, trip func(next http.RoundTripper, req *http.Request) (*http.Response, error)) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tripper{next, trip} })
	return config
}

// tripper is one client's part of what requests go through.
type tripper struct {
	http.RoundTripper
	trip func(http.RoundTripper, *http.Request) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (t tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.trip(t.RoundTripper, req)
}

// WrappedRoundTripper lets idle connections be closed.
func (t tripper) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// between stands between a client and a server, whose answers are real, and changes some of
// them: it makes the cases that neither server makes by itself. What it does not change
// goes through untouched.
type between struct {
	// list is given the body of a list and returns what arrives in its place. It may be nil.
	list func(query url.Values, body []byte) []byte
	// watch says what to do with the n-th watch, from 1 on; nil is nothing. It may be nil.
	watch func(n int, query url.Values) *edit

	mu      sync.Mutex // guards watches
	watches int
}

// edit is what happens to one watch.
type edit struct {
	before []frame             // sent before anything that the server sends
	each   func(frame) []frame // what is sent in the place of an event; nil leaves it
	end    bool                // the answer ends after before
}

// frame is an event of a watch as it travels.
type frame struct {
	typ string
	raw []byte         // the encoded object
	obj runtime.Object // in the place of raw
	all []byte         // in the place of the whole frame
}

// put returns a config whose answers go through b.
func (b *between) put(config *rest.Config) *rest.Config { return through(config, b.trip) }

func (b *between) trip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	req = req.Clone(req.Context())
	req.Header.Set("Accept-Encoding", "identity")
	res, err := next.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	switch {
	case query.Has("watch") && b.watch != nil:
		b.mu.Lock()
		b.watches++
		e := b.watch(b.watches, query)
		b.mu.Unlock()
		if e != nil {
			media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
			body := &editedBody{ReadCloser: res.Body, in: bufio.NewReader(res.Body), edit: *e, binary: media == asProtobuf}
			if err := body.send(e.before); err != nil {
				return nil, err
			}
			res.Body = body
		}
	case !query.Has("watch") && b.list != nil:
		raw, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		raw = b.list(query, raw)
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		res.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	}
	return res, nil
}

// editedBody is the body of a watch of which the events are changed.
type editedBody struct {
	io.ReadCloser
	in     *bufio.Reader
	out    bytes.Buffer
	edit   edit
	binary bool
}

// Read implements io.Reader.
func (b *editedBody) Read(p []byte) (int, error) {
	for b.out.Len() == 0 {
		if b.edit.end {
			return 0, io.EOF
		}
		f, err := b.next()
		if err != nil {
			return 0, err
		}
		frames := []frame{f}
		if b.edit.each != nil {
			frames = b.edit.each(f)
		}
		if err := b.send(frames); err != nil {
			return 0, err
		}
	}
	return b.out.Read(p)
}

// next reads an event of the server's.
func (b *editedBody) next() (frame, error) {
	if !b.binary {
		line, err := b.in.ReadBytes('\n')
		if err != nil {
			return frame{}, err
		}
		var event struct {
			Type   string
			Object json.RawMessage
		}
		err = json.Unmarshal(line, &event)
		return frame{typ: event.Type, raw: event.Object}, err
	}
	var length [4]byte
	if _, err := io.ReadFull(b.in, length[:]); err != nil {
		return frame{}, err
	}
	raw := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(b.in, raw); err != nil {
		return frame{}, err
	}
	var event metav1.WatchEvent
	err := event.Unmarshal(raw)
	return frame{typ: event.Type, raw: event.Object.Raw}, err
}

// send encodes events for the client.
func (b *editedBody) send(frames []frame) error {
	for _, f := range frames {
		if f.all != nil {
			b.out.Write(f.all)
			continue
		}
		if f.obj != nil {
			raw, err := encode(f.obj, b.binary)
			if err != nil {
				return err
			}
			f.raw = raw
		}
		if !b.binary {
			fmt.Fprintf(&b.out, "{\"type\":%q,\"object\":%s}\n", f.typ, bytes.TrimSpace(f.raw))
			continue
		}
		event := metav1.WatchEvent{Type: f.typ, Object: runtime.RawExtension{Raw: f.raw}}
		raw, err := event.Marshal()
		if err != nil {
			return err
		}
		b.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(raw))))
		b.out.Write(raw)
	}
	return nil
}

func encode(obj runtime.Object, binary bool) ([]byte, error) {
	if !binary {
		return json.Marshal(obj)
	}
	var out bytes.Buffer
	err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &out)
	return out.Bytes(), err
}

// configMap decodes the object of an event.
func (f frame) configMap(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(f.raw, nil, nil)
	cm, ok := obj.(*corev1.ConfigMap)
	if err != nil || !ok {
		t.Errorf("an event of type %s has %T, %v", f.typ, obj, err)
		return &corev1.ConfigMap{}
	}
	return cm
}

// failure returns an ERROR event.
func failure(code int32, reason metav1.StatusReason) frame {
	return frame{typ: "ERROR", obj: &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: "put in between",
	}}
}

// bookmark returns a plain one.
func bookmark(version string) frame {
	return frame{typ: "BOOKMARK", obj: &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
	}}
}
