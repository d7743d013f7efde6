package store

import "github.com/tarnproject/tarn/internal/mvcc"

// rows has, for every id, its place in each index with one value for each object. The places
// follow the identity in the notes of the map, so that an update that changes none of them reads one
// or two cache lines. Writer only.
type rows struct {
	objects *mvcc.Map
	columns int
}

// addColumn makes room for one more index and returns its column.
func (r *rows) addColumn() int {
	r.objects.Widen(1)
	r.columns++
	return r.columns - 1
}

func (r *rows) word(id uint32, column int) *uint64 {
	return &r.objects.Note(id)[identWords+column]
}

// at returns the place of an id in a column.
func (r *rows) at(id uint32, column int) mvcc.Place { return mvcc.Unpack(*r.word(id, column)) }

// set changes the place of an id in a column.
func (r *rows) set(id uint32, column int, to mvcc.Place) { *r.word(id, column) = to.Pack() }
