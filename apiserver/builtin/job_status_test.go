package builtin

import (
	"testing"

	"pgregory.net/rapid"

	_ "github.com/tarnproject/tarn/internal/soak" // for the flag -soak
)

// Intervals may be in any order and overlap each other: only their bounds have been checked.
func TestOverlapFindsTheFirstIndexInBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) interval {
			first := rapid.IntRange(0, 30).Draw(t, "first")
			return interval{first, first + rapid.IntRange(0, 5).Draw(t, "more")}
		}), 0, 6)
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		has := func(all []interval, n int) bool {
			for _, i := range all {
				if i.first <= n && n <= i.last {
					return true
				}
			}
			return false
		}
		want := 0
		for want <= 40 && !(has(a, want) && has(b, want)) {
			want++
		}
		index, both := overlap(a, b)
		if both != (want <= 40) || both && index != want {
			t.Fatalf("overlap is %d %v, want %d", index, both, want)
		}
	})
}

func BenchmarkOverlapOfManyIndexes(b *testing.B) {
	for b.Loop() {
		var even, odd []interval
		for n := range 25_000 {
			even, odd = append(even, interval{2 * n, 2 * n}), append(odd, interval{2*n + 1, 2*n + 1})
		}
		if _, both := overlap(even, odd); both {
			b.Fatal("they overlap")
		}
	}
}
