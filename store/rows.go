package store

import "github.com/tarnproject/tarn/internal/mvcc"

// rows has, for every id, its places in all indexes that have one value for each object, side
// by side: looking at them all touches one cache line. It is the writer's.
type rows struct {
	columns int
	places  []mvcc.Place
}

// addColumn makes room for one more index and returns its column.
func (r *rows) addColumn() int {
	wider := make([]mvcc.Place, 0, len(r.places)/max(1, r.columns)*(r.columns+1))
	for i := 0; i < len(r.places); i += r.columns {
		wider = append(wider, r.places[i:i+r.columns]...)
		wider = append(wider, mvcc.Place{})
	}
	r.places = wider
	r.columns++
	return r.columns - 1
}

// at returns the place of an id in a column, nil if it has no row yet.
func (r *rows) at(id uint32, column int) *mvcc.Place {
	if i := int(id)*r.columns + column; i < len(r.places) {
		return &r.places[i]
	}
	return nil
}

// slice is at as a slice, empty if the id has no place there.
func (r *rows) slice(id uint32, column int) []mvcc.Place {
	i := int(id)*r.columns + column
	if i >= len(r.places) || r.places[i].Nowhere() {
		return nil
	}
	return r.places[i : i+1]
}

// make is at for an id that is to have a row.
func (r *rows) make(id uint32, column int) *mvcc.Place {
	for len(r.places) < (int(id)+1)*r.columns {
		r.places = append(r.places, mvcc.Place{})
	}
	return r.at(id, column)
}
