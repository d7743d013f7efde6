package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	watchcodec "k8s.io/client-go/rest/watch"

	"github.com/tarnproject/tarn/bench/crds"
	"github.com/tarnproject/tarn/bench/pods"
)

// encoders encode the responses for one resource with apimachinery's serializers.
type encoders interface {
	len() int
	// list returns the list of a range of objects.
	list(from, to int, meta metav1.ListMeta) runtime.Object
	// object returns the ith object.
	object(i int) runtime.Object
	// next returns the ith object after a change, with the given version.
	next(i int, version uint64) runtime.Object
	// bookmark returns an object with only metadata.
	bookmark(meta metav1.ObjectMeta) runtime.Object
	// last returns a version after those of all objects.
	last() uint64
	// encoder returns the encoder of objects and lists.
	encoder(of runtime.Encoder) runtime.Encoder
}

// encode returns an encoded response.
func encode(e encoders, a asked) ([][]byte, error) {
	if e == nil {
		return nil, fmt.Errorf("no resource %q", a.resource)
	}
	info, err := serializer(a.encoding)
	if err != nil {
		return nil, err
	}
	switch a.way {
	case byList, byPages:
		return encodeLists(e, e.encoder(info.Serializer), a.way == byPages)
	case byStream, byEvents:
		return encodeEvents(e, info, a.way == byStream)
	}
	return nil, fmt.Errorf("no way %q", a.way)
}

// serializer returns apimachinery's serializer for an encoding.
func serializer(encoding string) (runtime.SerializerInfo, error) {
	mediaType := runtime.ContentTypeJSON
	if encoding == protobufEncoding {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return info, fmt.Errorf("no serializer for %s", mediaType)
	}
	return info, nil
}

// encodeLists encodes all objects as one list or as pages.
func encodeLists(e encoders, enc runtime.Encoder, paged bool) ([][]byte, error) {
	var out [][]byte
	size := e.len()
	if paged {
		size = pageSize
	}
	for from := 0; from < e.len(); from += size {
		to := min(from+size, e.len())
		meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(e.last(), 10)}
		if left := int64(e.len() - to); left > 0 {
			meta.Continue, meta.RemainingItemCount = strconv.Itoa(len(out)+1), &left
		}
		var body bytes.Buffer
		if err := enc.Encode(e.list(from, to, meta), &body); err != nil {
			return nil, err
		}
		out = append(out, body.Bytes())
	}
	return out, nil
}

// frameEncoder returns the encoder of watch frames.
func frameEncoder(e encoders, info runtime.SerializerInfo, to io.Writer) *watchcodec.Encoder {
	frames := info.StreamSerializer.Framer.NewFrameWriter(to)
	return watchcodec.NewEncoder(
		streaming.NewEncoder(frames, scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)),
		e.encoder(info.Serializer))
}

// encodeEvents encodes the frames of a watch: all objects and a bookmark, or a change of each
// object. A streaming list is followed by the frame that ends it.
func encodeEvents(e encoders, info runtime.SerializerInfo, initial bool) ([][]byte, error) {
	var body bytes.Buffer
	enc := frameEncoder(e, info, &body)
	if !initial {
		for version, i := range rand.New(rand.NewPCG(5, 6)).Perm(e.len()) {
			if err := enc.Encode(&apiwatch.Event{Type: apiwatch.Modified, Object: e.next(i, e.last()+1+uint64(version))}); err != nil {
				return nil, err
			}
		}
		return [][]byte{body.Bytes()}, nil
	}
	for i := range e.len() {
		if err := enc.Encode(&apiwatch.Event{Type: apiwatch.Added, Object: e.object(i)}); err != nil {
			return nil, err
		}
	}
	end := e.bookmark(metav1.ObjectMeta{
		ResourceVersion: strconv.FormatUint(e.last(), 10),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	})
	if err := enc.Encode(&apiwatch.Event{Type: apiwatch.Bookmark, Object: end}); err != nil {
		return nil, err
	}
	all := body.Len()
	expired := apierrors.NewResourceExpired("the version is too old").Status()
	if err := frameEncoder(podEncoders{}, info, &body).Encode(&apiwatch.Event{Type: apiwatch.Error, Object: &expired}); err != nil {
		return nil, err
	}
	return [][]byte{body.Bytes()[:all], body.Bytes()[all:]}, nil
}

// podEncoders encodes pods.
type podEncoders struct {
	pods    []*corev1.Pod
	version uint64
}

func (e podEncoders) len() int                                  { return len(e.pods) }
func (e podEncoders) last() uint64                              { return e.version }
func (e podEncoders) object(i int) runtime.Object               { return e.pods[i] }
func (e podEncoders) next(i int, version uint64) runtime.Object { return pods.Next(e.pods[i], version) }

func (e podEncoders) list(from, to int, meta metav1.ListMeta) runtime.Object {
	l := &corev1.PodList{ListMeta: meta, Items: make([]corev1.Pod, 0, to-from)}
	for _, p := range e.pods[from:to] {
		l.Items = append(l.Items, *p)
	}
	return l
}

func (e podEncoders) bookmark(meta metav1.ObjectMeta) runtime.Object {
	return &corev1.Pod{ObjectMeta: meta}
}

func (e podEncoders) encoder(of runtime.Encoder) runtime.Encoder {
	return scheme.Codecs.EncoderForVersion(of, corev1.SchemeGroupVersion)
}

// releaseEncoders encodes custom resources.
type releaseEncoders struct {
	releases []*unstructured.Unstructured
	version  uint64
}

func (e releaseEncoders) len() int                    { return len(e.releases) }
func (e releaseEncoders) last() uint64                { return e.version }
func (e releaseEncoders) object(i int) runtime.Object { return e.releases[i] }

func (e releaseEncoders) next(i int, version uint64) runtime.Object {
	u := e.releases[i].DeepCopy()
	u.SetResourceVersion(strconv.FormatUint(version, 10))
	return u
}

func (e releaseEncoders) list(from, to int, meta metav1.ListMeta) runtime.Object {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion(crds.Resource.GVK().GroupVersion().String())
	l.SetKind(crds.Resource.Kind + "List")
	l.SetResourceVersion(meta.ResourceVersion)
	l.SetContinue(meta.Continue)
	l.SetRemainingItemCount(meta.RemainingItemCount)
	for _, r := range e.releases[from:to] {
		l.Items = append(l.Items, *r)
	}
	return l
}

func (e releaseEncoders) bookmark(meta metav1.ObjectMeta) runtime.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(crds.Resource.GVK())
	u.SetResourceVersion(meta.ResourceVersion)
	u.SetAnnotations(meta.Annotations)
	return u
}

func (e releaseEncoders) encoder(runtime.Encoder) runtime.Encoder {
	return unstructured.UnstructuredJSONScheme
}
