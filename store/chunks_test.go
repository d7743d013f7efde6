package store

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/object"
)

// listing is a list of everything that is brought up to date chunk by chunk.
type listing struct {
	revision uint64
	chunks   [][]*thing
}

func (l *listing) update(snap Snapshot[*thing]) []*thing {
	for i := range snap.Chunks() {
		if i == len(l.chunks) {
			l.chunks = append(l.chunks, snap.Chunk(i, nil))
		} else if snap.Changed(i, l.revision) {
			l.chunks[i] = snap.Chunk(i, nil)
		}
	}
	l.revision = snap.Revision()
	return slices.Concat(l.chunks...)
}

// Chunks that have not changed since a revision need not be read again, also when whole
// blocks of keys have come and gone without a snapshot.
func TestChunksBringAListUpToDate(t *testing.T) {
	s := Must(New(things, Options[*thing]{}))
	rnd := rand.New(rand.NewPCG(1, 2))
	model, list := map[object.Key]*thing{}, listing{}
	for round := range 40 {
		for range rnd.IntN(9000) {
			k := object.Key{Namespace: "a", Name: strconv.Itoa(rnd.IntN(12_000))}
			if rnd.IntN(3) > 0 {
				model[k] = &thing{key: k, uid: "u", version: object.Version(strconv.Itoa(round)), color: "red"}
				if err := s.Set(model[k]); err != nil {
					t.Fatal(err)
				}
			} else {
				s.Delete(k)
				delete(model, k)
			}
		}
		if round%7 == 6 {
			for k := range model {
				s.Delete(k)
			}
			clear(model)
			s.trySweep()
		}
		if round%3 == 2 {
			continue // a list is made now and then
		}
		snap := s.Snapshot()
		got := list.update(snap)
		snap.Release()
		if len(got) != len(model) {
			t.Fatalf("round %d: %d objects, want %d", round, len(got), len(model))
		}
		for _, obj := range got {
			if model[obj.key] != obj {
				t.Fatalf("round %d: listed %v, held is %v", round, obj, model[obj.key])
			}
		}
	}
}
