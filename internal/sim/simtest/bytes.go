package simtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// Via is how the objects of a server reach a reader.
type Via string

// The ways to a reader.
const (
	// Direct hands over copies of the objects.
	Direct Via = "direct"
	// Protobuf and JSON encode objects with apimachinery's serializers; package wire
	// decodes them.
	Protobuf Via = "protobuf"
	JSON     Via = "json"
)

// Each runs a test for each Via, in a bubble of virtual time.
func Each(t *testing.T, test func(t *testing.T, via Via)) {
	t.Helper()
	for _, via := range []Via{Direct, Protobuf, JSON} {
		t.Run("source="+string(via), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, via) })
		})
	}
}

// Source returns a source of the server's objects.
func (s *Server[T]) Source(via Via) reflector.Source[T] {
	if via == Direct {
		return s
	}
	rt := &transport[T]{server: s, resource: wire.MustOf[T]().Resource}
	rt.info, _ = runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(),
		map[Via]string{Protobuf: runtime.ContentTypeProtobuf, JSON: runtime.ContentTypeJSON}[via])
	client, err := wire.NewWithTransport(&url.URL{Scheme: "http", Host: "simtest"}, rt, wire.Options{})
	if err != nil {
		panic(err)
	}
	src, err := stream.NewSource(wire.For(client, wire.MustOf[T]()), object.Selection{}, stream.Options{})
	if err != nil {
		panic(err)
	}
	return src
}

// transport answers list and watch requests with what a server answers, encoded.
type transport[T Object] struct {
	server   *Server[T]
	resource object.Resource
	info     runtime.SerializerInfo
}

// RoundTrip implements http.RoundTripper.
func (rt *transport[T]) RoundTrip(req *http.Request) (*http.Response, error) {
	body, contentType, err := rt.answer(req)
	resp := &http.Response{Request: req, StatusCode: http.StatusOK, Header: http.Header{}, Body: body}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		resp.StatusCode, resp.Body, contentType = int(s.Code), io.NopCloser(bytes.NewReader(rt.encode(&s))), rt.info.MediaType
	} else if err != nil {
		return nil, err
	}
	resp.Header.Set("Content-Type", contentType)
	return resp, nil
}

func (rt *transport[T]) answer(req *http.Request) (body io.ReadCloser, contentType string, err error) {
	query := req.URL.Query()
	sel := object.Selection{Labels: query.Get("labelSelector"), Fields: query.Get("fieldSelector")}
	if _, rest, ok := strings.Cut(req.URL.Path, "/namespaces/"); ok {
		sel.Namespace, _, _ = strings.Cut(rest, "/")
	}
	version, match := object.Version(query.Get("resourceVersion")), object.Match(query.Get("resourceVersionMatch"))
	if query.Get("watch") != "" {
		body, err = rt.watch(req.Context(), object.WatchOptions{
			Selection: sel, Version: version, Match: match,
			InitialEvents: query.Get("sendInitialEvents") == "true", Bookmarks: query.Get("allowWatchBookmarks") == "true",
		})
		return body, rt.info.MediaType + ";stream=watch", err
	}
	limit, _ := strconv.ParseInt(query.Get("limit"), 10, 64)
	var objs []runtime.Object
	page, err := rt.server.List(req.Context(), object.ListOptions{
		Selection: sel, Version: version, Match: match, Limit: limit, Continue: query.Get("continue"),
	}, nil, func(it object.Item[T]) error {
		objs = append(objs, it.Object)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	gvk := rt.resource.GVK()
	list, err := scheme.Scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, "", err
	}
	if err := meta.SetList(list, objs); err != nil {
		return nil, "", err
	}
	head := list.(metav1.ListInterface)
	head.SetResourceVersion(string(page.Version))
	head.SetContinue(page.Continue)
	return io.NopCloser(bytes.NewReader(rt.encode(list))), rt.info.MediaType, nil
}

// encode encodes an object with its kind.
func (rt *transport[T]) encode(obj runtime.Object) []byte {
	raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(rt.info.Serializer, rt.resource.GVK().GroupVersion()), obj)
	if err != nil {
		panic(err)
	}
	return raw
}

// watch returns a body into which a goroutine writes the events of a watch until the body is
// closed or the request's context ends.
func (rt *transport[T]) watch(ctx context.Context, opts object.WatchOptions) (io.ReadCloser, error) {
	st, err := rt.server.Watch(ctx, opts, nil)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() {
		w.CloseWithError(context.Cause(ctx))
		st.Close()
	})
	go func() {
		defer stop()
		for {
			events, err := st.Next()
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				events, err = []object.Event[T]{{Err: err}}, io.EOF
			}
			if _, closed := w.Write(rt.frames(events)); closed != nil || err != nil {
				w.CloseWithError(err)
				return
			}
		}
	}()
	return &body{PipeReader: r, stream: st}, nil
}

// body closes the watch with the body.
type body struct {
	*io.PipeReader
	stream io.Closer
}

// Close implements io.Closer.
func (b *body) Close() error {
	return errors.Join(b.stream.Close(), b.PipeReader.Close())
}

// frames encodes events.
func (rt *transport[T]) frames(events []object.Event[T]) []byte {
	var buf bytes.Buffer
	info := rt.info.StreamSerializer
	enc := streaming.NewEncoder(nopCloser{info.Framer.NewFrameWriter(&buf)}, info.Serializer)
	for _, ev := range events {
		out := &metav1.WatchEvent{}
		status := apierrors.APIStatus(nil)
		switch {
		case errors.As(ev.Err, &status):
			s := status.Status()
			out.Type, out.Object.Raw = "ERROR", rt.encode(&s)
		case ev.Bookmark:
			obj, _ := scheme.Scheme.New(rt.resource.GVK())
			obj.(T).SetResourceVersion(string(ev.Item.Version))
			if ev.InitialEnd {
				obj.(T).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			}
			out.Type, out.Object.Raw = "BOOKMARK", rt.encode(obj)
		case ev.Kind == 0:
			out.Type, out.Object.Raw = "UNHEARD-OF", rt.encode(&metav1.Status{})
		default:
			out.Type = map[object.Kind]string{object.Added: "ADDED", object.Updated: "MODIFIED", object.Deleted: "DELETED"}[ev.Kind]
			out.Object.Raw = rt.encode(ev.Item.Object)
		}
		if err := enc.Encode(out); err != nil {
			panic(err)
		}
	}
	return buf.Bytes()
}

type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }
