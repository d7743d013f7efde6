package object_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/object"
)

// randomRanges returns ranges that overlap, touch and repeat often, and now and then reach the ends.
func randomRanges(r *rand.Rand) []object.HashRange {
	bound := func() uint64 {
		switch r.IntN(10) {
		case 0:
			return 0
		case 1:
			return math.MaxUint64
		}
		return uint64(r.IntN(16))<<60 + uint64(r.IntN(3)) - 1
	}
	ranges := make([]object.HashRange, r.IntN(6))
	for i := range ranges {
		a, b := bound(), bound()
		ranges[i] = object.HashRange{First: min(a, b), Last: max(a, b)}
	}
	return ranges
}

// probes returns hashes at and around all bounds.
func probes(r *rand.Rand, ranges ...object.HashRange) []uint64 {
	hashes := []uint64{0, 1, math.MaxUint64, r.Uint64(), r.Uint64()}
	for _, x := range ranges {
		hashes = append(hashes, x.First-1, x.First, x.First+1, x.Last-1, x.Last, x.Last+1)
	}
	return hashes
}

func inAny(ranges []object.HashRange, hash uint64) bool {
	return slices.ContainsFunc(ranges, func(x object.HashRange) bool { return x.First <= hash && hash <= x.Last })
}

func TestP05_ShardIsTheUnionOfItsRanges(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 18))
		a, b := randomRanges(r), randomRanges(r)
		x, y := object.NewShard(object.ByUID, a...), object.NewShard(object.ByUID, b...)
		rest, comparable := x.Minus(y)
		if !comparable {
			t.Fatalf("seed %d: shards by the same field do not compare", seed)
		}
		covers, differ := true, false
		for _, hash := range probes(r, slices.Concat(a, b)...) {
			inA, inB := inAny(a, hash), inAny(b, hash)
			if got := x.ContainsHash(hash); got != inA {
				t.Fatalf("seed %d: %v contains %#x: %v", seed, a, hash, got)
			}
			if got := rest.ContainsHash(hash); got != (inA && !inB) {
				t.Fatalf("seed %d: %v minus %v contains %#x: %v", seed, a, b, hash, got)
			}
			covers, differ = covers && (!inB || inA), differ || inA != inB
		}
		if x.Covers(y) != covers {
			t.Fatalf("seed %d: %v covers %v: %v", seed, a, b, !covers)
		}
		if (x == y) == differ {
			t.Fatalf("seed %d: %v equals %v: %v", seed, a, b, x == y)
		}
		if x != object.NewShard(object.ByUID, slices.Collect(x.Ranges())...) {
			t.Fatalf("seed %d: the ranges of %v make another shard", seed, a)
		}
		for i, all := 1, slices.Collect(x.Ranges()); i < len(all); i++ {
			if all[i].First <= all[i-1].Last+1 {
				t.Fatalf("seed %d: %v and %v are not one range", seed, all[i-1], all[i])
			}
		}
	}
}

// The server parses the text with CEL and matches with apimachinery's package.
func TestP05_ShardMatchesWhatTheServerMatches(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 36))
		by := []object.ShardBy{object.ByUID, object.ByNamespace}[r.IntN(2)]
		shard := object.NewShard(by, randomRanges(r)...)
		var requirements []sharding.ShardRangeRequirement
		for x := range shard.Ranges() {
			start, end := x.Bounds()
			requirements = append(requirements, sharding.ShardRangeRequirement{Key: by.String(), Start: start, End: end})
		}
		server := sharding.NewSelector(requirements...)
		if !shard.IsEmpty() && shard.Selector() != server.String() {
			t.Fatalf("seed %d: the selector is %q, want %q", seed, shard.Selector(), server)
		}
		parsedBy, ranges, err := object.ParseRanges(shard.Selector())
		if err != nil || !shard.IsEmpty() && object.NewShard(parsedBy, ranges...) != shard {
			t.Fatalf("seed %d: %q parses as %v %v: %v", seed, shard.Selector(), parsedBy, ranges, err)
		}
		for range 50 {
			uid, namespace := types.UID(fmt.Sprintf("%08x-%04x", r.Uint32(), r.IntN(1<<16))), fmt.Sprintf("team-%d", r.IntN(1000))
			want, err := server.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace}})
			if err != nil {
				t.Fatal(err)
			}
			if got := shard.Contains(uid, namespace); got != (want && !shard.IsEmpty()) {
				t.Fatalf("seed %d: %s contains %s in %s: %v", seed, shard.Selector(), uid, namespace, got)
			}
			if got := fmt.Sprintf("%016x", object.Hash(uid)); got != sharding.HashField(string(uid)) {
				t.Fatalf("the hash of %s is %s, want %s", uid, got, sharding.HashField(string(uid)))
			}
		}
	}
}

func TestP04_PartsDivideEverything(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 5, 7, 256, 1000} {
		var all []object.HashRange
		for i := range n {
			part := slices.Collect(object.Part(object.ByUID, i, n).Ranges())
			if len(part) != 1 {
				t.Fatalf("part %d of %d has the ranges %v", i, n, part)
			}
			if size := float64(part[0].Last-part[0].First) + 1; math.Abs(size*float64(n)/math.Exp2(64)-1) > 1e-9 {
				t.Errorf("part %d of %d has %v hashes", i, n, size)
			}
			all = append(all, part...)
		}
		for _, hash := range probes(r, all...) {
			in := 0
			for i := range n {
				if object.Part(object.ByUID, i, n).ContainsHash(hash) {
					in++
				}
			}
			if in != 1 {
				t.Errorf("%d of %d parts contain %#x", in, n, hash)
			}
		}
	}
	if got := object.Part(object.ByUID, 1, 2).Selector(); got != "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')" {
		t.Errorf("the second half is %s", got)
	}
}

func TestShardsThatAreNotComparable(t *testing.T) {
	var everything object.Shard
	none, half := object.NewShard(object.ByUID), object.Part(object.ByUID, 0, 2)
	all := object.NewShard(object.ByUID, object.HashRange{Last: math.MaxUint64})
	other := object.Part(object.ByNamespace, 0, 2)
	for _, c := range []struct {
		name      string
		s, other  object.Shard
		covers    bool
		remainder bool // comparable
	}{
		{"everything covers everything", everything, everything, true, true},
		{"everything covers a half", everything, half, true, false},
		{"a half does not cover everything", half, everything, false, true},
		{"nothing is covered", half, none, true, true},
		{"a half does not cover one by another field", half, other, false, false},
		{"all hashes cover a half", all, half, true, true},
	} {
		if got := c.s.Covers(c.other); got != c.covers {
			t.Errorf("%s: %v", c.name, got)
		}
		if _, ok := c.s.Minus(c.other); ok != c.remainder {
			t.Errorf("%s: comparable: %v", c.name, ok)
		}
	}
	if !everything.Contains("x", "") || none.Contains("x", "") || !all.Contains("x", "") {
		t.Error("everything and all hashes contain all objects, and nothing contains none")
	}
	if n := testing.AllocsPerRun(100, func() { half.Contains("4bb1b1a8-2d4b-4a1b-9d42-0d1b5fb16f3a", "shop") }); n > 0 {
		t.Errorf("Contains allocates %v times", n)
	}
}

func TestParseRangesRejects(t *testing.T) {
	const low, high = "'0x0000000000000000'", "'0x8000000000000000'"
	by, ranges, err := object.ParseRanges(" shardRange( object.metadata.uid ,\"0x0000000000000000\", " + high + " )||shardRange(object.metadata.uid," + high + ",'0x10000000000000000') ")
	want := []object.HashRange{{Last: 1<<63 - 1}, {First: 1 << 63, Last: math.MaxUint64}}
	if err != nil || by != object.ByUID || !slices.Equal(ranges, want) {
		t.Errorf("got %v %v: %v", by, ranges, err)
	}
	for _, text := range []string{
		"", "x", "shardRange", "shardRange()", "shardRange(object.metadata.uid, " + low + ")",
		"shardRange(metadata.uid, " + low + ", " + high + ")",
		"shardRange(object.metadata.name, " + low + ", " + high + ")",
		"shardRange(object.metadata.uid, " + high + ", " + low + ")",
		"shardRange(object.metadata.uid, " + low + ", " + low + ")",
		"shardRange(object.metadata.uid, '0x10000000000000000', '0x10000000000000000')",
		"shardRange(object.metadata.uid, '0x0', " + high + ")",
		"shardRange(object.metadata.uid, 0x0000000000000000, " + high + ")",
		"shardRange(object.metadata.uid, " + low + ", '0x800000000000000G')",
		"shardRange(object.metadata.uid, " + low + ", '0xF000000000000000')",
		"shardRange(object.metadata.uid, " + low + ", '0x20000000000000000')",
		"shardRange(object.metadata.uid, " + low + ", " + high + ") && shardRange(object.metadata.uid, " + low + ", " + high + ")",
		"shardRange(object.metadata.uid, " + low + ", " + high + ") || shardRange(object.metadata.namespace, " + low + ", " + high + ")",
		"shardRange(object.metadata.uid, " + low + ", " + high + ") ||",
	} {
		if by, ranges, err := object.ParseRanges(text); !errors.Is(err, object.ErrShard) {
			t.Errorf("%q parses as %v %v: %v", text, by, ranges, err)
		}
	}
}
