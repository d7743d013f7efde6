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
	info, err := serializer(a.encoding)
	if err != nil {
		return nil, err
	}
	switch a.way {
	case byList, byPages:
		return encodeLists(e, info, a.way == byPages)
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
func encodeLists(e encoders, info runtime.SerializerInfo, paged bool) ([][]byte, error) {
	enc := e.encoder(info.Serializer)
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
		if info.MediaType == runtime.ContentTypeProtobuf {
			page, err := protobufList(e, enc, from, to, meta)
			if err != nil {
				return nil, err
			}
			out = append(out, page)
			continue
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
	event := func(i int) *apiwatch.Event { return &apiwatch.Event{Type: apiwatch.Added, Object: e.object(i)} }
	if !initial {
		order := rand.New(rand.NewPCG(5, 6)).Perm(e.len())
		event = func(i int) *apiwatch.Event {
			return &apiwatch.Event{Type: apiwatch.Modified, Object: e.next(order[i], e.last()+uint64(i))}
		}
	}
	err := encodeChunks(e.len(), &body, func(from, to int, out *bytes.Buffer) error {
		enc := frameEncoder(e, info, out)
		for i := from; i < to; i++ {
			if err := enc.Encode(event(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !initial {
		return [][]byte{body.Bytes()}, err
	}
	end := e.bookmark(metav1.ObjectMeta{
		ResourceVersion: strconv.FormatUint(e.last(), 10),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	})
	if err := frameEncoder(e, info, &body).Encode(&apiwatch.Event{Type: apiwatch.Bookmark, Object: end}); err != nil {
		return nil, err
	}
	all := body.Len()
	if err := encodeExpired(info, &body); err != nil {
		return nil, err
	}
	return [][]byte{body.Bytes()[:all], body.Bytes()[all:]}, nil
}

// encodeExpired encodes the frame that ends a watch and makes the client list again.
func encodeExpired(info runtime.SerializerInfo, to io.Writer) error {
	expired := apierrors.NewResourceExpired("the version is too old").Status()
	return frameEncoder(podEncoders{}, info, to).Encode(&apiwatch.Event{Type: apiwatch.Error, Object: &expired})
}

// podEncoders encodes pods, which it builds when they are needed.
type podEncoders struct{ plan *pods.Plan }

func (e podEncoders) len() int                    { return e.plan.Len() }
func (e podEncoders) last() uint64                { return e.plan.LastVersion() }
func (e podEncoders) object(i int) runtime.Object { return e.plan.Pod(i) }

func (e podEncoders) next(i int, version uint64) runtime.Object {
	return pods.Next(e.plan.Pod(i), version)
}

func (e podEncoders) list(from, to int, meta metav1.ListMeta) runtime.Object {
	l := &corev1.PodList{ListMeta: meta, Items: make([]corev1.Pod, to-from)}
	parallel(to-from, func(i int) { l.Items[i] = *e.plan.Pod(from + i) })
	return l
}

func (e podEncoders) bookmark(meta metav1.ObjectMeta) runtime.Object {
	return &corev1.Pod{ObjectMeta: meta}
}

func (e podEncoders) encoder(of runtime.Encoder) runtime.Encoder {
	return scheme.Codecs.EncoderForVersion(of, corev1.SchemeGroupVersion)
}

// metadataEncoders encodes the metadata of pods.
type metadataEncoders struct{ podEncoders }

func (e metadataEncoders) object(i int) runtime.Object { return metadataOf(e.plan.Pod(i)) }

func (e metadataEncoders) next(i int, version uint64) runtime.Object {
	return metadataOf(pods.Next(e.plan.Pod(i), version))
}

func (e metadataEncoders) list(from, to int, meta metav1.ListMeta) runtime.Object {
	l := &metav1.PartialObjectMetadataList{ListMeta: meta, Items: make([]metav1.PartialObjectMetadata, to-from)}
	l.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	parallel(to-from, func(i int) { l.Items[i] = *metadataOf(e.plan.Pod(from + i)) })
	return l
}

func (e metadataEncoders) bookmark(meta metav1.ObjectMeta) runtime.Object {
	return metadataOf(&corev1.Pod{ObjectMeta: meta})
}

// encoder returns the encoder unchanged: the kinds are set already.
func (e metadataEncoders) encoder(of runtime.Encoder) runtime.Encoder { return of }

func metadataOf(p pod) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}
	m.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return m
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
