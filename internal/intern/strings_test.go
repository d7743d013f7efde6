package intern_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// same reports whether two strings are one in memory.
func same(a, b string) bool {
	return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b)
}

func TestAStringThatRepeatsIsHeldOnce(t *testing.T) {
	table := intern.NewStrings(0)
	for range 2 {
		if _, shared := table.Lookup([]byte("kube-system")); shared {
			t.Error("found too early")
		}
	}
	third, shared := table.Lookup([]byte("kube-system"))
	if fourth := table.Bytes([]byte("kube-system")); !shared || !same(third, fourth) || third != "kube-system" {
		t.Errorf("got %q and %q, shared %v", third, fourth, shared)
	}
}

// The smallest table is one set, so all four strings note their first sight beside each
// other. Tests of the decoders rely on this: what came twice is shared from then on.
func TestATableWithRoomForgetsNoFirstSight(t *testing.T) {
	for range 100 { // each table has its own hash
		table, words := intern.NewStrings(4), []string{"web", "db", "cache", "proxy"}
		for sight := range 3 {
			for _, w := range words {
				if _, shared := table.Lookup([]byte(w)); shared != (sight == 2) {
					t.Fatalf("%s at sight %d: shared %v", w, sight+1, shared)
				}
			}
		}
	}
}

func TestTheResultIsEqualToTheInputAndKeepsNoneOfIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := intern.NewStrings(rapid.IntRange(0, 20).Draw(t, "limit"))
		words := rapid.SliceOfN(rapid.SliceOfN(rapid.ByteRange('a', 'c'), 0, 4), 1, 60).Draw(t, "words")
		var got, want []string
		for _, w := range words {
			want = append(want, string(w))
			buf := append([]byte(nil), w...)
			got = append(got, table.Bytes(buf))
			clear(buf)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("word %d: got %q, want %q", i, got[i], want[i])
			}
		}
	})
}

// FuzzStrings cuts the input into words and asks tables for each, several times over
// and out of one buffer, as decoders do.
func FuzzStrings(f *testing.F) {
	f.Add([]byte("kube-system/web/kube-system/web/kube-system/web"), uint8(4))
	f.Add([]byte(strings.Repeat("a", intern.MaxLength)+"/"+strings.Repeat("a", intern.MaxLength+1)), uint8(1))
	f.Add([]byte("//\x00/\x00\x00/\xff/"), uint8(0))
	f.Fuzz(func(t *testing.T, text []byte, limit uint8) {
		table := intern.NewStrings(int(limit))
		words := strings.Split(string(text), "/")
		var got []string
		var buf []byte
		for range 4 {
			for _, w := range words {
				buf = append(buf[:0], w...)
				got = append(got, table.Bytes(buf))
			}
		}
		clear(buf[:cap(buf)])
		for i, s := range got {
			if want := words[i%len(words)]; s != want {
				t.Fatalf("word %d: got %q, want %q", i, s, want)
			}
		}
		st := table.Stats()
		if st.Strings > st.Limit || st.Bytes > st.Strings*intern.MaxLength || st.Taken-st.Displaced != uint64(st.Strings) {
			t.Fatalf("%+v", st)
		}
	})
}

func TestANilOrZeroTableCopies(t *testing.T) {
	for name, table := range map[string]*intern.Strings{"nil": nil, "zero": {}} {
		for range 3 {
			if _, shared := table.Lookup([]byte("copied")); shared {
				t.Errorf("%s: found a string", name)
			}
			if s := table.Bytes([]byte("copied")); s != "copied" {
				t.Errorf("%s: %q", name, s)
			}
		}
		if st := table.Stats(); st.Strings != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestWhatComesOnceIsNotTakenIn(t *testing.T) {
	table := intern.NewStrings(1 << 10)
	for i := range soak.Rounds(100_000) {
		table.Bytes(fmt.Appendf(nil, "uid-%d", i))
	}
	// Parts of hashes may collide by chance, though hardly ever: 30 bits of them.
	if st := table.Stats(); st.Taken > 10 {
		t.Errorf("%+v", st)
	}
}

func TestTheTableStaysWithinItsLimit(t *testing.T) {
	soak.Measures(t)
	for _, limit := range []int{4, 7, 8, 100, 1000} {
		table := intern.NewStrings(limit)
		for i := range 20_000 {
			b := fmt.Appendf(nil, "%d-%s", i, strings.Repeat("x", i%intern.MaxLength))
			table.Bytes(b)
			table.Bytes(b)
		}
		st := table.Stats()
		if st.Strings > limit || st.Limit > limit || st.Bytes > st.Strings*intern.MaxLength {
			t.Errorf("limit %d: %+v", limit, st)
		}
		if st.Strings == 0 || st.Taken-st.Displaced != uint64(st.Strings) {
			t.Errorf("limit %d: %+v does not add up", limit, st)
		}
	}
}

func TestALongStringIsCopied(t *testing.T) {
	table := intern.NewStrings(0)
	long := []byte(strings.Repeat("x", intern.MaxLength+1))
	for range 3 {
		if _, shared := table.Lookup(long); shared || table.Bytes(long) != string(long) {
			t.Errorf("shared %v", shared)
		}
	}
	for range 2 {
		table.Bytes(long[1:])
	}
	if st := table.Stats(); st.Strings != 1 || st.Bytes != intern.MaxLength {
		t.Errorf("%+v", st)
	}
}

func TestBusyStringsOutliveAFloodOfPairs(t *testing.T) {
	table := intern.NewStrings(64)
	busy := []byte("app.kubernetes.io/name")
	for range 4 {
		table.Bytes(busy)
	}
	found := 0
	for i := range 1_000 {
		pair := fmt.Appendf(nil, "pair-%d", i)
		table.Bytes(pair)
		table.Bytes(pair)
		if _, shared := table.Lookup(busy); shared {
			found++
		}
	}
	if found < 990 {
		t.Errorf("found %d times of 1000", found)
	}
	if st := table.Stats(); st.Displaced == 0 {
		t.Errorf("nothing was displaced: %+v", st)
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	table := intern.NewStrings(0)
	b := []byte("node-0123.example.internal")
	table.Bytes(b)
	table.Bytes(b)
	if n := testing.AllocsPerRun(100, func() { table.Bytes(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestManyGoroutinesGetEqualStrings(t *testing.T) {
	table := intern.NewStrings(32)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5_000 {
				want := fmt.Sprintf("label-%d", (i*7+g)%100)
				if got := table.Bytes([]byte(want)); got != want {
					t.Errorf("got %q, want %q", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
	if st := table.Stats(); st.Strings > 32 {
		t.Errorf("%+v", st)
	}
}

func BenchmarkBytes(b *testing.B) {
	words := make([][]byte, 256)
	for i := range words {
		words[i] = fmt.Appendf(nil, "node-%04d.example.internal", i)
	}
	b.Run("intern", func(b *testing.B) {
		table := intern.NewStrings(0)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			table.Bytes(words[i%len(words)])
		}
	})
	b.Run("copy", func(b *testing.B) {
		var keep string
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			keep = string(words[i%len(words)])
		}
		_ = keep
	})
}

func ExampleStrings() {
	table := intern.NewStrings(0)
	for range 3 {
		table.Bytes([]byte("kube-system")) // taken in when it comes again
	}
	fmt.Println(table.Stats().Strings)
	// Output: 1
}
