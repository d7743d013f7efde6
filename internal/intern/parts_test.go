package intern

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"
)

// ask looks the bytes up and keeps them if the table permits it. It reports whether they
// were found.
func ask(t testing.TB, table *Parts, key Key, raw []byte) bool {
	found, ticket := table.Lookup(key, raw)
	if found != nil && (!found.Matches(raw) || found.Key != key) {
		t.Errorf("found another part for %q", raw)
	}
	if ticket != 0 {
		table.Keep(ticket, &Part{Key: key, Cost: 2 * len(raw)}, raw)
	}
	return found != nil
}

func TestAPartIsFoundTheThirdTimeByItsKeyAndBytes(t *testing.T) {
	table, a, b := NewParts(0), Key{}, Key{Drop: unsafe.Pointer(new(int))}
	for i, want := range []bool{false, false, true, true} {
		if got := ask(t, table, a, []byte("part")); got != want {
			t.Errorf("time %d: found %v", i, got)
		}
	}
	if ask(t, table, b, []byte("part")) {
		t.Error("found under another key")
	}
	ask(t, table, b, []byte("part"))
	if !ask(t, table, b, []byte("part")) || !ask(t, table, a, []byte("part")) {
		t.Error("two keys do not both have their part")
	}
	if st := table.Stats(); st.Parts != 2 || st.Taken != 2 || st.Displaced != 0 {
		t.Errorf("%+v", st)
	}
}

func TestPartsStayWithinTheirLimit(t *testing.T) {
	for _, limit := range []int{1, 300, 5_000, 100_000, 1 << 20} {
		table := NewParts(limit)
		for i := range 20_000 {
			n := i / 2 % 3_000 // each twice in a row
			ask(t, table, Key{}, fmt.Appendf(nil, "%d %0*d", n, n%200, n))
			if st := table.Stats(); st.Bytes > limit || st.Bytes < 0 {
				t.Fatalf("limit %d: %+v", limit, st)
			}
		}
		st, parts, bytes := table.Stats(), 0, 0
		table.all(func(p *Part) { parts, bytes = parts+1, bytes+p.Cost })
		if parts != st.Parts || bytes != st.Bytes || st.Taken-st.Displaced != uint64(st.Parts) {
			t.Errorf("limit %d: %d bytes in %d parts, counted as %+v", limit, bytes, parts, st)
		}
		if limit >= 5_000 && (st.Parts == 0 || st.Displaced == 0) {
			t.Errorf("limit %d: %+v", limit, st)
		}
	}
}

func TestAPartUsedWithoutLookupIsNotEvicted(t *testing.T) {
	table, busy := NewParts(20_000), []byte("busy")
	for range 2 {
		ask(t, table, Key{}, busy)
	}
	part, _ := table.Lookup(Key{}, busy)
	for i := range 5_000 {
		part.Use()
		for range 2 {
			ask(t, table, Key{}, fmt.Append(nil, i))
		}
	}
	if st := table.Stats(); st.Displaced < 1_000 {
		t.Fatalf("nothing was evicted: %+v", st)
	}
	if again, _ := table.Lookup(Key{}, busy); again != part {
		t.Error("the part was evicted")
	}
}

func TestManyGoroutinesKeepParts(t *testing.T) {
	table := NewParts(20_000)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 5_000 {
				ask(t, table, Key{}, fmt.Append(nil, (i*7+g)%100))
			}
		})
	}
	group.Wait()
	st, parts := table.Stats(), 0
	table.all(func(*Part) { parts++ })
	if st.Bytes > st.Limit || st.Parts != parts {
		t.Errorf("%+v, %d parts", st, parts)
	}
}

// Many tables see few strings, so that a table is as large as what passes through it needs.
func TestATableGrowsWithWhatPassesThroughIt(t *testing.T) {
	table := NewStrings(0)
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			table.Bytes(fmt.Append(nil, "string ", i))
		}
	}
	ask(0, leastSets)
	if n := len(*table.sets.Load()); n != leastSets {
		t.Errorf("%d sets for %d strings", n, leastSets)
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() { ask(g*DefaultLimit, (g+1)*DefaultLimit) })
	}
	group.Wait()
	if n := len(*table.sets.Load()); n != DefaultLimit/ways {
		t.Errorf("%d sets for %d strings", n, 4*DefaultLimit)
	}
	for range 3 {
		ask(0, 100)
	}
	if st := table.Stats(); st.Strings < 90 || st.Limit != DefaultLimit {
		t.Errorf("%+v", st)
	}
}
