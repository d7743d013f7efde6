package stream

import (
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// repeated is a body of many items that is never in memory as a whole: a head, one item many
// times, and a tail.
type repeated struct {
	head, item, tail string
	n                int
	now              string
}

func (r *repeated) Read(p []byte) (int, error) {
	for r.now == "" {
		switch {
		case r.head != "":
			r.now, r.head = r.head, ""
		case r.n > 0:
			r.now = r.item
			r.n--
		case r.tail != "":
			r.now, r.tail = r.tail, ""
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, r.now)
	r.now = r.now[n:]
	return n, nil
}

// longList returns the body of a list of n equal pods.
func longList(t testing.TB, e wire.Encoding, n int) io.Reader {
	p := pod(5)
	p.Annotations["example.com/note"] = strings.Repeat("n", 700)
	if e == wire.JSON {
		item := strings.TrimSpace(string(wireBytes(wire.JSON, p)))
		return &repeated{
			head: `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[` + item,
			item: "," + item, n: n - 1, tail: "]}",
		}
	}
	raw := wiretest.Must(p.Marshal())(t)
	item := string(protoField(2, raw))
	meta := protoField(1, []byte("\x12\x015"))
	kind := protoField(1, append(protoField(1, []byte("v1")), protoField(2, []byte("PodList"))...))
	head := append([]byte("k8s\x00"), kind...)
	head = append(head, 0x12)
	for size := uint64(len(meta) + n*len(item)); ; size >>= 7 {
		if size < 0x80 {
			head = append(head, byte(size))
			break
		}
		head = append(head, byte(size)|0x80)
	}
	return &repeated{head: string(head) + string(meta), item: item, n: n}
}

// L09: the memory of a list does not grow with its length. The body of 40,000 items has more than
// 40 MB, of which less than 8 MiB may be live at any time.
func TestL09_MemoryDoesNotGrowWithTheList(t *testing.T) {
	soak.Measures(t)
	const most = 8 << 20
	n := max(40_000, soak.Rounds(40_000)) // a smaller body could fit into the limit
	for _, e := range encodings {
		for name, held := range map[string]object.Held{
			"decoded": nil,
			"held":    func(object.Key, object.UID, object.Version) bool { return true },
		} {
			t.Run(string(e)+" "+name, func(t *testing.T) {
				c := serveOver(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", mediaOf(e))
					io.Copy(w, longList(t, e, n))
				})
				src := sourceOf(t, c, podsAs(e), Options{parallel: 2})
				var base, peak uint64
				seen := 0
				_, err := src.List(t.Context(), object.ListOptions{}, &object.Intake[*corev1.Pod]{Held: held}, func(item object.Item[*corev1.Pod]) error {
					if item.Err != nil || item.Held != (held != nil) {
						t.Fatalf("item %d: %+v", seen, item)
					}
					// The decoders' tables are full after the first items.
					if seen++; seen == 1000 || seen%(n/8) == 0 {
						if live := liveBytes(); seen == 1000 {
							base = live
						} else {
							peak = max(peak, live)
						}
					}
					return nil
				})
				if err != nil || seen != n {
					t.Fatalf("%d items, err %v", seen, err)
				}
				if peak > base+most {
					t.Errorf("%d KiB more were alive in the middle than at the beginning", (peak-base)>>10)
				}
				if base > liveBytes()+most {
					t.Errorf("%d KiB were alive after 1,000 items", base>>10)
				}
			})
		}
	}
}

// liveBytes returns the live heap: the minimum of several measurements, because other goroutines
// allocate after the collection, until all of them wait for the caller.
func liveBytes() uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
	}
	return least
}

// L15: an item that is held costs no allocation.
func TestL15_HeldItemsCostNoAllocation(t *testing.T) {
	soak.Measures(t)
	const n = 4000
	for _, e := range encodings {
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return longList(t, e, n) }), podsAs(e), Options{})
		held := func(object.Key, object.UID, object.Version) bool { return true }
		allocs := testing.AllocsPerRun(5, func() {
			if _, err := src.List(t.Context(), object.ListOptions{}, &object.Intake[*corev1.Pod]{Held: held}, func(object.Item[*corev1.Pod]) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
		// Dozens of items share a block of strings; the rest is the request.
		if allocs/n > 0.1 {
			t.Errorf("%s: %.2f allocations an item", e, allocs/n)
		}
	}
}

// Delivered items do not refer to the read buffers.
func TestDeliveredItemsAreNotOverwritten(t *testing.T) {
	list := podList(600)
	for _, e := range encodings {
		body := &choppy{b: wireBytes(e, list), sizes: []int{4096}}
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return body }), podsAs(e), Options{parallel: 2})
		i := -1
		items, _, err := collect(src, func(object.Key, object.UID, object.Version) bool { i++; return i%3 == 0 })
		if err != nil {
			t.Fatal(err)
		}
		for i, item := range items {
			want := &list.Items[i]
			if item.Key != (object.Key{Namespace: want.Namespace, Name: want.Name}) || item.UID != want.UID || string(item.Version) != want.ResourceVersion {
				t.Fatalf("%s: item %d is now called %v %s %s", e, i, item.Key, item.UID, item.Version)
			}
			if !item.Held && item.Object.Status.PodIP != want.Status.PodIP {
				t.Fatalf("%s: item %d now has the address %s", e, i, item.Object.Status.PodIP)
			}
		}
	}
}
