package reflector

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// TestL11_TheQuarantineCountsWhatIsInIt compares quarantines around their limit with sets of keys.
func TestL11_TheQuarantineCountsWhatIsInIt(t *testing.T) {
	for seed := range uint64(soak.Rounds(30)) {
		r := rand.New(rand.NewPCG(seed, 28))
		type set = map[object.Key]object.UID
		var q quarantine
		want := set{}
		key := func() object.Key { return object.RawKey(fmt.Sprintf("n%d/k%d", r.IntN(3), r.IntN(500))) }
		add := func(q *quarantine, want set, before *quarantine) {
			k, uid := key(), object.UID(fmt.Sprint("u", r.IntN(1000)))
			q.add(time.Now(), before, k, uid, "1", errors.New("bad"), make([]byte, r.IntN(2000)))
			want[k] = uid
		}
		fill := func(q *quarantine, want set, before *quarantine) {
			for range r.IntN(maxQuarantined) {
				add(q, want, before)
			}
		}
		for range 300 {
			switch n := r.IntN(100); {
			case n < 30:
				add(&q, want, nil)
			case n < 40:
				fill(&q, want, nil)
			case n < 80:
				for range r.IntN(30) {
					k := key()
					q.remove(k)
					delete(want, k)
				}
			case n < 90: // the shard changes
				kept, lacked := object.Part(object.ByUID, 0, 2), object.Part(object.ByUID, 1, 2)
				q.keep(kept)
				maps.DeleteFunc(want, func(k object.Key, uid object.UID) bool { return !kept.Contains(uid, k.Namespace) })
				var other quarantine
				more := set{}
				fill(&other, more, nil)
				other.keep(lacked)
				maps.DeleteFunc(more, func(k object.Key, uid object.UID) bool { return !lacked.Contains(uid, k.Namespace) })
				q.merge(&other)
				maps.Copy(want, more)
			default: // a list
				var next quarantine
				want = set{}
				fill(&next, want, &q)
				q = next
			}
			raw := 0
			for _, e := range q.byKey {
				raw += len(e.Raw)
			}
			if q.len() != len(want) || len(q.list()) != min(len(want), maxQuarantined) || q.raw != raw || raw > maxRawTotal {
				t.Fatalf("seed %d: %d in quarantine, want %d; %d entries with %d raw bytes, counted as %d", seed, q.len(), len(want), len(q.byKey), raw, q.raw)
			}
			for _, k := range slices.Collect(maps.Keys(want)) {
				if uid, _, ok := q.find(k); !ok || uid != want[k] {
					t.Fatalf("seed %d: %v is in quarantine as %q, want %q", seed, k, uid, want[k])
				}
			}
		}
	}
}
