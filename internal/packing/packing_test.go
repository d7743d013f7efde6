package packing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/internal/soak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noise returns bytes that are like nothing else.
func noise(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, n+7)
	for len(out) < n {
		out = binary.LittleEndian.AppendUint64(out, r.Uint64())
	}
	return out[:n]
}

// likeness returns a string of a sort: mostly what all of the sort have, and a little of its
// own.
func likeness(sort, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(sort), 7))
	var out []byte
	for part := range 10 {
		out = append(out, noise(r, 200)...)
		out = fmt.Appendf(out, "own %d of %d", n, part)
	}
	return out
}

func TestWhatIsUnpackedIsWhatWasPacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Packer
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 8).Draw(t, "pieces")
		var strings [][]byte
		var packed []Packed
		for range rapid.IntRange(1, 40).Draw(t, "strings") {
			var s []byte
			for range rapid.IntRange(0, 12).Draw(t, "parts") {
				s = append(s, rapid.SampledFrom(pieces).Draw(t, "piece")...)
				s = append(s, rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "own")...)
			}
			strings = append(strings, slices.Clone(s))
			packed = append(packed, p.Pack(s))
			clear(s) // it is the caller's
		}
		var buf []byte
		for i := range strings {
			if got := packed[i].Bytes(&buf); !bytes.Equal(got, strings[i]) {
				t.Fatalf("string %d is %q, want %q", i, got, strings[i])
			}
			if got := packed[i].Bytes(nil); !bytes.Equal(got, strings[i]) {
				t.Fatalf("string %d without a buffer is %q, want %q", i, got, strings[i])
			}
		}
	})
}

func TestStringsThatAreAlikeTakeAFraction(t *testing.T) {
	var p Packer
	long, short := 0, 0
	for n := range 2000 {
		s := likeness(n%50, n)
		long, short = long+len(s), short+p.Pack(s).Size()
	}
	if short+p.used > long/6 {
		t.Errorf("%d bytes take %d, and a dictionary of %d", long, short, p.used)
	}
}

func TestStringsThatAreNotAlikeCostNoMoreThanThemselves(t *testing.T) {
	var p Packer
	r := rand.New(rand.NewPCG(1, 2))
	long, short := 0, 0
	for range 2000 {
		s := noise(r, 1000)
		long, short = long+len(s), short+p.Pack(s).Size()
	}
	if n := p.used + len(p.table)*4; short+n > long+3*warmUp || p.generations.Load() > 1 {
		t.Errorf("%d bytes take %d, and a dictionary of %d in generation %d", long, short, n, p.generations.Load())
	}
}

// Half of each string is its own, so none can be packed to less than half: a dictionary of
// many would not help the others.
func TestStringsThatArePackedAsWellAsTheyCanBeAreNotAdded(t *testing.T) {
	var p Packer
	r := rand.New(rand.NewPCG(1, 2))
	common := noise(r, 1000)
	for range 5000 {
		p.Pack(append(noise(r, 1000), common...))
	}
	if n := p.generations.Load(); n > 1 || p.used > maxDictionary/4 {
		t.Errorf("%d bytes in dictionary %d", p.used, n)
	}
}

func TestAStringThatIsTooLongForADictionaryIsHeldAllTheSame(t *testing.T) {
	var p Packer
	s := noise(rand.New(rand.NewPCG(1, 2)), 2*maxDictionary)
	if got := p.Pack(s); !bytes.Equal(got.Bytes(nil), s) || p.used > 0 {
		t.Errorf("it is not what it was, or %d bytes of it are in the dictionary", p.used)
	}
}

// Sorts of strings come and go, so that dictionaries fill. What was packed with the first
// ones is held, and so are they.
func TestDictionariesAreBoundedAndFreedWithTheirLastReference(t *testing.T) {
	soak.Measures(t)
	var p Packer
	var held []Packed
	var want [][]byte
	sort := 0
	fill := func(generations int32, most int) {
		for range most {
			if p.generations != nil && p.generations.Load() >= generations {
				return
			}
			for n := range 6 {
				s := likeness(sort, n)
				held, want = append(held, p.Pack(s)), append(want, s)
			}
			sort++
		}
	}
	fill(3, 4000)
	if n := p.generations.Load(); n != 3 {
		t.Fatalf("there are %d dictionaries, want 3", n)
	}
	for i := range held {
		if !bytes.Equal(held[i].Bytes(nil), want[i]) {
			t.Fatalf("string %d is not what it was", i)
		}
	}
	held, want = nil, nil
	// Nothing refers to the old dictionaries any more. The runtime calls their cleanups from a
	// goroutine of its own, when it gets to that.
	for p.generations.Load() != 1 {
		runtime.GC()
		runtime.Gosched()
	}
	p.generations.Store(maxGenerations)
	before := p.dict
	for range 2000 {
		for n := range 6 {
			p.Pack(likeness(sort, n))
		}
		sort++
	}
	if p.dict != before {
		t.Error("there is one more dictionary than there may be")
	}
	runtime.KeepAlive(held)
}

func TestReadersDoNotWaitForThePacker(t *testing.T) {
	var p Packer
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			var buf []byte
			var held []Packed
			for n := range 200 {
				held = append(held, p.Pack(likeness(n, w)))
				back := n / 2
				if !bytes.Equal(held[back].Bytes(&buf), likeness(back, w)) {
					t.Errorf("string %d of %d is not what it was", back, w)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestWhatIsWrittenInPartsIsUnpackedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Packer
		sorts := rapid.IntRange(1, 40).Draw(t, "sorts")
		var buf []byte
		for n := range rapid.IntRange(1, 60).Draw(t, "strings") {
			s := likeness(n%sorts, n)
			if rapid.Bool().Draw(t, "short") {
				s = s[:rapid.IntRange(0, len(s)).Draw(t, "length")]
			}
			dict, extent, data := p.Pack(s).Parts()
			if dict == nil {
				if !bytes.Equal(data, s) {
					t.Fatalf("plain %q of %q", data, s)
				}
				continue
			}
			text := slices.Clone(dict.Text(extent)) // nothing after it is needed
			var err error
			if buf, err = Unpack(buf, text, data, len(s)); err != nil || !bytes.Equal(buf, s) {
				t.Fatalf("%v: unpacked %q, want %q", err, buf, s)
			}
			if _, err := Unpack(nil, text, data, len(s)-1); len(s) > 0 && err == nil {
				t.Fatal("the limit is exceeded")
			}
		}
	})
}

func FuzzUnpack(f *testing.F) {
	var p Packer
	for n := range 4 {
		dict, extent, data := p.Pack(likeness(1, n)).Parts()
		f.Add(dict.Text(extent), data)
	}
	f.Fuzz(func(t *testing.T, text, data []byte) {
		const limit = 1 << 16
		if out, err := Unpack(nil, text, data, limit); err == nil && len(out) > limit {
			t.Errorf("%d bytes", len(out))
		}
	})
}
