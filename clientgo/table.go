package clientgo

import (
	"fmt"
	"iter"
	"slices"

	"k8s.io/client-go/tools/cache"
)

// table is the content of a [threadSafe] store: objects in rows, and the rows that have a value in
// an index. When a row is removed, the last row takes its number, so the columns have no gaps and a
// list is a copy of one of them. Only threadSafe uses it, under its lock.
type table struct {
	rows   map[string]int32
	keys   []string
	objs   []any
	places [][]place

	funcs   cache.Indexers
	indexes []*index
	values  []value // what evaluate returns, for reuse
}

// index is one index function and the rows of each of its values.
type index struct {
	name string
	f    cache.IndexFunc
	sets map[string]*set
}

// set is the rows that have one value in an index, without order.
type set struct {
	index *index
	value string
	rows  []int32
}

// place says that set.rows[at] is the row.
type place struct {
	set *set
	at  int32
}

// value is a value that an object has in an index.
type value struct {
	index *index
	text  string
}

// newTable returns a table with these index functions and room for n objects.
func newTable(funcs cache.Indexers, n int) table {
	t := table{
		rows: make(map[string]int32, n), keys: make([]string, 0, n), objs: make([]any, 0, n), places: make([][]place, 0, n),
		funcs: funcs,
	}
	for name, f := range funcs {
		if f != nil {
			t.indexes = append(t.indexes, &index{name, f, map[string]*set{}})
		}
	}
	return t
}

// tableOf returns a table that holds n items. The error is that of an index function.
func tableOf(funcs cache.Indexers, n int, items iter.Seq2[string, any]) (table, error) {
	t := newTable(funcs, n)
	for key, obj := range items {
		if err := t.put(key, obj); err != nil {
			return table{}, err
		}
	}
	return t, nil
}

// all yields every key with its object.
func (t *table) all(yield func(string, any) bool) {
	for row, key := range t.keys {
		if !yield(key, t.objs[row]) {
			return
		}
	}
}

// put stores an object. If an index function fails it stores nothing and returns the error.
func (t *table) put(key string, obj any) error {
	values, err := t.evaluate(key, obj)
	if err != nil {
		return err
	}
	row, held := t.rows[key]
	if !held {
		row = int32(len(t.keys))
		t.rows[key] = row
		t.keys, t.objs, t.places = append(t.keys, key), append(t.objs, obj), append(t.places, nil)
	} else {
		t.objs[row] = obj
		if slices.EqualFunc(t.places[row], values, place.is) {
			return nil
		}
		t.displace(row)
	}
	places := slices.Grow(t.places[row][:0], len(values))
	for _, v := range values {
		places = append(places, v.index.add(v.text, row))
	}
	t.places[row] = places
	return nil
}

// evaluate calls the index functions for an object. As in client-go, nil has no values.
func (t *table) evaluate(key string, obj any) ([]value, error) {
	values := t.values[:0]
	if obj == nil {
		return values, nil
	}
	for _, x := range t.indexes {
		texts, err := x.f(obj)
		if err != nil {
			return nil, indexError(key, x.name, err)
		}
		for i, text := range texts {
			if !slices.Contains(texts[:i], text) {
				values = append(values, value{x, text})
			}
		}
	}
	t.values = values
	return values, nil
}

// indexError is what client-go panics with when an index function fails.
func indexError(key, index string, err error) error {
	return fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", key, index, err)
}

func (p place) is(v value) bool { return p.set.index == v.index && p.set.value == v.text }

// add adds a row to the set of a value.
func (x *index) add(text string, row int32) place {
	s := x.sets[text]
	if s == nil {
		s = &set{index: x, value: text}
		x.sets[text] = s
	}
	s.rows = append(s.rows, row)
	return place{s, int32(len(s.rows) - 1)}
}

// displace removes a row from all sets. Its places are stale then.
func (t *table) displace(row int32) {
	for _, p := range t.places[row] {
		s, last := p.set, int32(len(p.set.rows)-1)
		if moved := s.rows[last]; moved != row {
			s.rows[p.at] = moved
			places := t.places[moved]
			places[slices.Index(places, place{s, last})].at = p.at
		}
		if s.rows = s.rows[:last]; last == 0 {
			delete(s.index.sets, s.value)
		}
	}
}

// remove removes the object of a key, if there is one.
func (t *table) remove(key string) {
	row, held := t.rows[key]
	if !held {
		return
	}
	t.displace(row)
	delete(t.rows, key)
	last := len(t.keys) - 1
	if int(row) != last {
		t.keys[row], t.objs[row], t.places[row] = t.keys[last], t.objs[last], t.places[last]
		t.rows[t.keys[row]] = row
		for _, p := range t.places[row] {
			p.set.rows[p.at] = row
		}
	}
	t.keys[last], t.objs[last], t.places[last] = "", nil, nil
	t.keys, t.objs, t.places = t.keys[:last], t.objs[:last], t.places[:last]
}

// rows returns the rows that have one of these values, each once. The caller may not write to them.
func (x *index) rows(values ...string) []int32 {
	if len(values) == 1 { // mostly, and then no row is there twice
		if s := x.sets[values[0]]; s != nil {
			return s.rows
		}
		return nil
	}
	var rows []int32
	seen := map[int32]bool{}
	for _, v := range values {
		if s := x.sets[v]; s != nil {
			for _, row := range s.rows {
				if !seen[row] {
					seen[row] = true
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

func (t *table) named(name string) (*index, error) {
	for _, x := range t.indexes {
		if x.name == name {
			return x, nil
		}
	}
	return nil, noIndex(name)
}

// noIndex is client-go's error for an index that does not exist.
func noIndex(name string) error {
	return fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // as client-go says it
}

// pick returns the cells of a column in these rows, in a slice that belongs to the caller.
func pick[E any](column []E, rows []int32) []E {
	picked := make([]E, len(rows))
	for i, row := range rows {
		picked[i] = column[row]
	}
	return picked
}
