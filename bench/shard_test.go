package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/bench/pods"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"

	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// shardServer answers lists and watches with bytes that are encoded beforehand, so that the processor
// time is the client's.
type shardServer struct{ list, events []byte }

func (s *shardServer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{Request: req, StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kruntime.ContentTypeProtobuf}}}
	if req.URL.Query().Get("watch") == "" {
		resp.Body = io.NopCloser(bytes.NewReader(s.list))
		return resp, nil
	}
	r, w := io.Pipe()
	go func() {
		for rest := s.events; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			if _, err := w.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		<-req.Context().Done()
		w.CloseWithError(context.Cause(req.Context()))
	}()
	resp.Body = r
	return resp, nil
}

// newShardServer encodes the list and one change of each object.
func newShardServer(b *testing.B, objs []*corev1.Pod, version uint64) *shardServer {
	info, _ := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), kruntime.ContentTypeProtobuf)
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	encode := func(obj kruntime.Object) []byte {
		raw, err := kruntime.Encode(encoder, obj)
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}}
	var events bytes.Buffer
	frames := streaming.NewEncoder(nopCloser{info.StreamSerializer.Framer.NewFrameWriter(&events)}, info.StreamSerializer.Serializer)
	for i, p := range objs {
		list.Items = append(list.Items, *p)
		next := pods.Next(p, version+1+uint64(i))
		if err := frames.Encode(&metav1.WatchEvent{Type: "MODIFIED", Object: kruntime.RawExtension{Raw: encode(next)}}); err != nil {
			b.Fatal(err)
		}
	}
	return &shardServer{list: encode(list), events: events.Bytes()}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// BenchmarkShard is what one of five replicas costs: bytes received, processor time and live memory, of
// the initial list and of one change of every object.
func BenchmarkShard(b *testing.B) {
	opts := pods.Options{Objects: 50_000}
	all := pods.Generate(opts)
	version := pods.LastVersion(opts)
	fifth := object.Part(object.ByUID, 0, 5)
	var some []*corev1.Pod
	for _, p := range all {
		if fifth.Contains(p.UID, p.Namespace) {
			some = append(some, p)
		}
	}
	whole, part := newShardServer(b, all, version), newShardServer(b, some, version)
	last, lastOfPart := object.Version(strconv.FormatUint(version+uint64(len(all)), 10)), object.Version(strconv.FormatUint(version+uint64(len(some)), 10))
	all, some = nil, nil
	for _, c := range []struct {
		name    string
		server  *shardServer
		shard   object.Shard
		compact bool
		last    object.Version
	}{
		{"decoded/everything", whole, object.Shard{}, false, last},
		{"decoded/a fifth, dropped by the client", whole, fifth, false, last},
		{"decoded/a fifth, sent by the server", part, fifth, false, lastOfPart},
		{"compact/everything", whole, object.Shard{}, true, last},
		{"compact/a fifth, dropped by the client", whole, fifth, true, last},
		{"compact/a fifth, sent by the server", part, fifth, true, lastOfPart},
	} {
		b.Run(c.name, func(b *testing.B) {
			var listed, changed, held float64
			for b.Loop() {
				before := heap()
				client, err := wire.NewWithTransport(&url.URL{Scheme: "http", Host: "bench"}, c.server, wire.Options{})
				if err != nil {
					b.Fatal(err)
				}
				source, err := stream.NewSource(wire.For(client, wire.MustOf[*corev1.Pod]()), object.Selection{}, stream.Options{Drop: []object.FieldPath{object.ManagedFields}})
				if err != nil {
					b.Fatal(err)
				}
				var form *store.Form[*corev1.Pod]
				if c.compact {
					form = store.Packed((*corev1.Pod).Marshal, source.Decode)
				}
				inf, err := informer.New(source, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
					Selection: object.Selection{Shard: c.shard}, Form: form,
					Reflector: reflector.Options[*corev1.Pod]{Streaming: reflector.StreamingOff},
				})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ran := make(chan error, 1)
				begin := processTime()
				go func() { ran <- inf.Run(ctx) }()
				err = inf.WaitSynced(ctx)
				synced := processTime()
				err = errors.Join(err, inf.WaitFor(ctx, c.last))
				end := processTime()
				held += float64(heap() - before)
				listed, changed = listed+float64(synced-begin)/1e6, changed+float64(end-synced)/1e6
				cancel()
				if err := errors.Join(err, <-ran); err != nil {
					b.Fatal(err)
				}
				runtime.KeepAlive(inf)
			}
			n := float64(b.N)
			b.ReportMetric(float64(len(c.server.list))/1e6, "MB-list")
			b.ReportMetric(float64(len(c.server.events))/1e6, "MB-events")
			b.ReportMetric(listed/n, "cpu-ms-list")
			b.ReportMetric(changed/n, "cpu-ms-events")
			b.ReportMetric(held/n/1e6, "MB-held")
			b.ReportMetric(0, "ns/op")
		})
	}
}
