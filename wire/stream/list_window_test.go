package stream

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
)

// A window of any size delivers in order, decodes each item once, drops the rest after an error of
// the sink, and leaves no goroutine.
func TestWindowDeliversInOrder(t *testing.T) {
	var pool sync.Pool
	rapid.Check(t, func(rt *rapid.T) {
		n := 150 * rapid.IntRange(0, 20).Draw(rt, "items")
		stop := rapid.OneOf(rapid.Just(-1), rapid.IntRange(0, 3000)).Draw(rt, "stop")
		size := rapid.IntRange(8, 4000).Draw(rt, "size")
		readyEvery := rapid.IntRange(1, 50).Draw(rt, "ready")
		var decoded atomic.Int64
		enough := errors.New("enough")
		next := 0
		w := &window[int]{
			decode: func(raw []byte, item *object.Item[int]) {
				decoded.Add(1)
				item.Object = int(binary.BigEndian.Uint64(raw))
			},
			sink: func(item object.Item[int]) error {
				if item.Object != next {
					rt.Fatalf("item %d came in the place of %d", item.Object, next)
				}
				if next == stop {
					return enough
				}
				next++
				return nil
			},
			limit:   rapid.IntRange(0, 200_000).Draw(rt, "limit"),
			workers: rapid.IntRange(0, 4).Draw(rt, "workers"),
			pool:    &pool,
		}
		raw := make([]byte, size)
		toDecode := 0
		var err error
		for i := 0; i < n && err == nil; i++ {
			if i%readyEvery == 0 {
				err = w.ready(object.Item[int]{Value: object.Decoded(i), Held: true})
				continue
			}
			binary.BigEndian.PutUint64(raw, uint64(i))
			toDecode++
			err = w.add(object.Item[int]{}, raw)
		}
		if err == nil {
			err = w.flush()
		}
		w.close()
		if stop >= 0 && stop < n {
			if err != enough || next != stop {
				rt.Fatalf("ended with %v at item %d, want it at %d", err, next, stop)
			}
			return
		}
		if err != nil || next != n || decoded.Load() != int64(toDecode) {
			rt.Fatalf("%d of %d items, %d of %d decoded, err %v", next, n, decoded.Load(), toDecode, err)
		}
	})
}

// A window does not buffer more bytes than its limit.
func TestWindowIsBounded(t *testing.T) {
	const limit = 100 << 10
	var pool sync.Pool
	w := &window[int]{
		decode: func([]byte, *object.Item[int]) {},
		sink:   func(object.Item[int]) error { return nil },
		limit:  limit, workers: 2, pool: &pool,
	}
	defer w.close()
	raw := make([]byte, 3<<10)
	for range 500 {
		if err := w.add(object.Item[int]{}, raw); err != nil {
			t.Fatal(err)
		}
		if w.bytes > limit {
			t.Fatalf("%d bytes are held", w.bytes)
		}
	}
}
