//go:build unix

package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// BenchmarkWatch reads streams of 10,000 events from memory, compared to client-go's decoding of
// the same bytes.
func BenchmarkWatch(b *testing.B) {
	const n = 10_000
	for _, e := range encodings {
		var body []byte
		for i := range n {
			body = append(body, encodeEvent(e, "MODIFIED", pod(i))...)
		}
		for name, c := range map[string]struct {
			opts    Options
			held    object.Held
			shard   object.Shard
			compact bool
		}{
			"decoded":         {},
			"compact":         {opts: Options{parallel: 1}, compact: true},
			"decoded, 1 core": {opts: Options{parallel: 1}},
			"held":            {held: func(object.Key, object.UID, object.Version) bool { return true }},
			"peeked":          {opts: Options{Lazy: true}},
			"outside a shard": {shard: object.NewShard(object.ByUID)},
			"inside a shard":  {shard: object.Part(object.ByUID, 0, 1)},
		} {
			b.Run(fmt.Sprintf("%s/%s", e, name), func(b *testing.B) {
				src := sourceOf(b, bodyClient(b, mediaOf(e), func() io.Reader { return bytes.NewReader(body) }), podsAs(e), c.opts)
				in := &object.Intake[*corev1.Pod]{Held: c.held}
				if c.compact {
					in.Encoder = compactEncoder(b, src)
				}
				perItem(b, n, "event", func() {
					st, err := src.Watch(context.Background(), object.WatchOptions{Selection: object.Selection{Shard: c.shard}}, in)
					if err != nil {
						b.Fatal(err)
					}
					got := 0
					for err == nil {
						var events []object.Event[*corev1.Pod]
						events, err = st.Next()
						got += len(events)
					}
					st.Close()
					if err != io.EOF || got != n {
						b.Fatal(got, err)
					}
				})
			})
		}
		b.Run(fmt.Sprintf("%s/client-go", e), func(b *testing.B) {
			info := wiretest.Serializer(mediaOf(e))
			perItem(b, n, "event", func() {
				frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(body)))
				d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), wiretest.Codecs.UniversalDeserializer())
				for range n {
					if _, _, err := d.Decode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
