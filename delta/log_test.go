package delta

import (
	"fmt"
	"math"
	"testing"

	"github.com/tarnproject/tarn/object"
)

func number(i int) object.Change[*int] {
	return object.Change[*int]{Kind: object.Added, Key: object.Key{Name: fmt.Sprint(i)}, Value: object.Decoded(&i)}
}

func (l *log[T]) addAll(deltas ...object.Change[T]) {
	for i := range deltas {
		l.add(&deltas[i], false)
	}
}

// check fails if the log's counters are inconsistent.
func (l *log[T]) check(t *testing.T) {
	t.Helper()
	live, chains := 0, 0
	l.index()
	for i := range l.deltas {
		d := &l.deltas[i]
		if d.Kind == 0 {
			continue
		}
		live++
		if i < l.head {
			t.Fatalf("delta %d is before the head", i)
		}
		if first, _, ok := l.lookup(d.Key); !ok {
			t.Fatalf("key %v is not in the index", d.Key)
		} else if first == i {
			chains++
		}
	}
	if live != l.live || chains != len(l.keys) {
		t.Fatalf("%d live and %d keys, want %d and %d", l.live, len(l.keys), live, chains)
	}
	for _, d := range l.deltas[len(l.deltas):cap(l.deltas)] {
		if d.Kind != 0 || d.Key.Name != "" {
			t.Fatalf("%v is kept alive behind the end", d.Key)
		}
	}
}

func TestLogPositionsWrap(t *testing.T) {
	l, out := new(log[*int]), new(log[*int])
	l.start = math.MaxUint32 - 100
	next := 0
	for i := range 1000 {
		l.addAll(number(i), number(i)) // two changes per key, not adjacent
		if i < 40 {
			continue
		}
		out.reset()
		l.takeFirst(out)
		if len(out.deltas) != 2 || *out.deltas[0].Value.Object != next {
			t.Fatalf("took %d of %v, want 2 of %d", len(out.deltas), *out.deltas[0].Value.Object, next)
		}
		next++
		if i%50 == 0 {
			l.check(t)
		}
	}
	if l.start > math.MaxUint32-100 {
		t.Errorf("start is %d: it never slid far enough to wrap", l.start)
	}
}

// A queue that never becomes empty does not grow without bound.
func TestLogSlides(t *testing.T) {
	l, out := new(log[*int]), new(log[*int])
	for i := range 100 {
		l.addAll(number(i))
	}
	for i := 100; i < 20_000; i++ {
		l.addAll(number(i))
		out.reset()
		l.takeFirst(out)
	}
	l.check(t)
	if c := cap(l.deltas); c > 512 {
		t.Errorf("capacity is %d for 100 pending", c)
	}
}

// Holes in the middle are reclaimed: popping a key with many deltas leaves as many holes.
func TestLogHolesInTheMiddle(t *testing.T) {
	l, out := new(log[*int]), new(log[*int])
	for round := range 200 {
		for i := range 10 {
			l.addAll(number(round*10 + i))
			for range 20 {
				l.addAll(number(-1))
			}
		}
		for range 10 {
			out.reset()
			l.takeFirst(out)
		}
		l.check(t)
	}
	if c := cap(l.deltas); c > 4096 {
		t.Errorf("capacity is %d", c)
	}
}

// The memory of a burst is freed, whether or not the log becomes empty.
func TestLogFreesTheMemoryOfABurst(t *testing.T) {
	const burst = 4 * keepDeltas
	for _, rest := range []int{0, 5} {
		t.Run(fmt.Sprintf("rest=%d", rest), func(t *testing.T) {
			l, out := new(log[*int]), new(log[*int])
			for i := range burst {
				l.addAll(number(i))
			}
			for l.live > rest {
				out.reset()
				l.takeFirst(out)
			}
			for i := range 4 * burst {
				l.addAll(number(i))
				out.reset()
				l.takeFirst(out)
			}
			l.check(t)
			if c := cap(l.deltas); c > keepDeltas {
				t.Errorf("capacity is still %d", c)
			}
		})
	}
}

func TestLogSqueeze(t *testing.T) {
	l, out := new(log[*int]), new(log[*int])
	l.addAll(number(1), number(2), number(1), number(3), number(2))
	l.takeFirst(out) // 1
	l.addAll(object.Change[*int]{Kind: object.Replaced, List: &object.List[*int]{}}, number(4))
	l.link(l.head).initial = true
	l.initial++
	l.squeeze()
	if l.holes() || l.live != 5 || l.initial != 1 {
		t.Fatalf("holes %v, live %d, initial %d", l.holes(), l.live, l.initial)
	}
	names := ""
	for _, d := range l.deltas[l.head:] {
		names += d.Key.Name + ";"
	}
	if names != "2;3;2;;4;" || l.at(l.lists[0].pos) != l.head+3 {
		t.Errorf("squeezed to %q, list at %d", names, l.at(l.lists[0].pos))
	}
}
