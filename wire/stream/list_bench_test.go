//go:build unix

package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// perItem measures a function that reads n items: the time, and the CPU time of the process,
// because other cores take part.
func perItem(b *testing.B, n int, what string, f func()) {
	b.Helper()
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		f()
	}
	items := float64(b.N) * float64(n)
	b.ReportMetric(float64(cpuTime()-start)/items, "cpu-ns/"+what)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/items, "ns/"+what)
	b.ReportMetric(0, "ns/op")
}

func cpuTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// compactEncoder returns that of a store that holds the bytes of src, with one index.
func compactEncoder(b *testing.B, src *Source[*corev1.Pod]) object.Encoder[*corev1.Pod] {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }).Reads(object.FieldPath{"spec", "nodeName"})
	return store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Form:    store.Packed((*corev1.Pod).Marshal, src.Decode),
		Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
	})).Encoder(func() bool { return false })
}

// BenchmarkList reads lists of 2,000 pods from memory, compared to apimachinery's decoding of the
// same body as a whole.
func BenchmarkList(b *testing.B) {
	const n = 2000
	list := podList(n)
	for _, e := range encodings {
		body := wireBytes(e, list)
		for name, c := range map[string]struct {
			opts    Options
			held    object.Held
			compact bool
		}{
			"decoded":          {},
			"compact":          {opts: Options{parallel: 1}, compact: true},
			"decoded, 1 core":  {opts: Options{parallel: 1}},
			"held":             {held: func(object.Key, object.UID, object.Version) bool { return true }},
			"none of all held": {held: func(object.Key, object.UID, object.Version) bool { return false }},
		} {
			b.Run(fmt.Sprintf("%s/%s", e, name), func(b *testing.B) {
				src := sourceOf(b, bodyClient(b, mediaOf(e), func() io.Reader { return bytes.NewReader(body) }), podsAs(e), c.opts)
				in := &object.Intake[*corev1.Pod]{Held: c.held}
				if c.compact {
					in.Encoder = compactEncoder(b, src)
				}
				perItem(b, n, "item", func() {
					if _, err := src.List(context.Background(), object.ListOptions{}, in, func(object.Item[*corev1.Pod]) error { return nil }); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
		b.Run(fmt.Sprintf("%s/apimachinery", e), func(b *testing.B) {
			perItem(b, n, "item", func() {
				if _, err := runtime.Decode(wiretest.Codecs.UniversalDeserializer(), body); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
