package clientgo

import (
	"fmt"
	"slices"

	"k8s.io/client-go/tools/cache"
)

// contents is what a store holds: the objects by their keys, side by side, and by the
// values of indexes. Writers take turns, on the store's lock; see table and roll for what
// readers may do meanwhile.
type contents struct {
	objects *table
	all     *roll
	indexes []*index // index number i is at i-1
	funcs   cache.Indexers
}

// few is room for the values of an object in each index, where there are no more.
type few [4][]string

// index is the rolls of objects by value.
type index struct {
	number int32 // the roll of all objects is number 0
	name   string
	values cache.IndexFunc
	rolls  *table // of *roll
}

// entry is where an object is. On the machines of today it fills a cache line.
type entry struct {
	slot   *slot
	places []place  // by the number of the index, the first in the roll of all
	room   [2]place // for the places of an object with one index
}

// place is where an object is in a roll.
type place struct {
	roll   *roll
	number int32
	pos    int32
}

// in returns the place in a roll.
func (e *entry) in(r *roll) *place {
	for i := range e.places {
		if e.places[i].roll == r {
			return &e.places[i]
		}
	}
	return nil
}

func newContents() *contents {
	return &contents{objects: newTable(0), all: &roll{}, funcs: cache.Indexers{}}
}

// empty returns contents with the same indexes and no objects, but room for n.
func (c *contents) empty(n int) *contents {
	out := &contents{
		objects: newTable(n), all: &roll{who: make([]*entry, 0, n)},
		funcs: c.funcs,
	}
	for _, x := range c.indexes {
		out.indexes = append(out.indexes, &index{x.number, x.name, x.values, newTable(0)})
	}
	return out
}

// evaluate appends what each of some index functions says of an object. The error is that of
// the last one that failed; the object is to have no place there. With care, to panic is to
// fail.
func evaluate(values [][]string, indexes []*index, key string, obj any, care bool) (_ [][]string, failed error) {
	for _, x := range indexes {
		of, err := x.ask(obj, care)
		if err != nil {
			of, failed = nil, x.failed(key, err)
		}
		values = append(values, of)
	}
	return values, failed
}

// ask returns what the index function says of an object.
func (x *index) ask(obj any, care bool) (values []string, err error) {
	switch {
	case obj == nil:
		return nil, nil // client-go does not ask about nothing
	case care:
		return x.askWithCare(obj)
	}
	return x.values(obj)
}

func (x *index) askWithCare(obj any) (values []string, err error) {
	returned := false
	defer func() {
		if !returned {
			err = fmt.Errorf("the index function panicked: %v", recover())
		}
	}()
	values, err = x.values(obj)
	returned = true
	return values, err
}

// failed is what client-go panics with when an index function fails.
func (x *index) failed(key string, err error) error {
	return fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", key, x.name, err)
}

// insert stores an object of some values under a key that is not there.
func (c *contents) insert(key string, obj any, values [][]string) {
	e := &entry{}
	e.places = e.room[:0]
	if n := 1 + len(c.indexes); n > len(e.room) {
		e.places = make([]place, 0, n)
	}
	e.places = append(e.places, place{c.all, 0, c.all.add(e, obj)})
	for i, x := range c.indexes {
		for _, value := range values[i] {
			x.place(e, value, obj)
		}
	}
	c.objects.add(key, obj, e)
}

// roll returns the objects of a value, nil without any.
func (x *index) roll(value string) *roll {
	r, _ := x.rolls.get(value)
	found, _ := r.(*roll)
	return found
}

// place adds an object to the roll of a value, unless it is there already.
func (x *index) place(e *entry, value string, obj any) {
	r := x.roll(value)
	if r == nil {
		r = &roll{value: value}
		x.rolls.add(value, r, nil)
	} else if e.in(r) != nil {
		return
	}
	e.places = append(e.places, place{r, x.number, r.add(e, obj)})
}

// update puts an object in the place of another. The error is as in evaluate; without care
// nothing has been stored then.
//
// Whoever gets the object by its key finds it in lists too: the slot comes last.
func (c *contents) update(s *slot, obj any, care bool) error {
	e := s.entry
	// Most objects have one value in the only index, and keep it. What follows does the
	// same for them and takes a tenth longer; the function is asked again there.
	if len(c.indexes) == 1 && len(e.places) == 2 {
		if of, err := c.indexes[0].ask(obj, care); err == nil && len(of) == 1 && of[0] == e.places[1].roll.value {
			e.places[0].roll.set(e.places[0].pos, obj)
			e.places[1].roll.set(e.places[1].pos, obj)
			c.objects.set(s, obj)
			return nil
		}
	}
	var room few
	values, err := evaluate(room[:0], c.indexes, s.key, obj, care)
	if err != nil && !care {
		return err
	}
	if e.stays(values) {
		for i := range e.places {
			e.places[i].roll.set(e.places[i].pos, obj)
		}
	} else {
		c.move(e, obj, values)
	}
	c.objects.set(s, obj)
	return err
}

// stays reports whether an entry has these very values.
func (e *entry) stays(values [][]string) bool {
	rest := e.places[1:]
	for i, of := range values {
		for _, value := range of {
			if len(rest) == 0 || int(rest[0].number) != i+1 || rest[0].roll.value != value {
				return false
			}
			rest = rest[1:]
		}
	}
	return len(rest) == 0
}

// move takes an entry to the rolls of these values.
func (c *contents) move(e *entry, obj any, values [][]string) {
	old := slices.Clone(e.places)
	e.places = e.places[:0]
	e.places = append(e.places, old[0])
	c.all.set(old[0].pos, obj)
	for i, x := range c.indexes {
		for _, value := range values[i] {
			at := slices.IndexFunc(old, func(p place) bool { return p.roll != nil && p.number == x.number && p.roll.value == value })
			if at < 0 {
				x.place(e, value, obj)
				continue
			}
			old[at].roll.set(old[at].pos, obj)
			e.places = append(e.places, old[at])
			old[at].roll = nil // it stays
		}
	}
	for _, p := range old[1:] {
		if p.roll != nil {
			c.leave(p)
		}
	}
}

// leave takes an entry out of the roll of a value.
func (c *contents) leave(p place) {
	p.roll.remove(p.pos)
	if len(p.roll.who) == 0 && p.number > 0 {
		rolls := c.indexes[p.number-1].rolls
		rolls.remove(rolls.find(p.roll.value))
	}
}

// remove takes an object out.
func (c *contents) remove(s *slot) {
	for _, p := range s.entry.places {
		c.leave(p)
	}
	c.objects.remove(s)
}

// addIndex indexes what there is by one more function. The error is that of the last
// object on which it failed.
func (c *contents) addIndex(name string, values cache.IndexFunc) (err error) {
	x := &index{int32(len(c.indexes) + 1), name, values, newTable(0)}
	for _, e := range c.all.who {
		obj := e.slot.load()
		if obj == nil {
			continue
		}
		values, e2 := x.askWithCare(obj)
		if e2 != nil {
			err = x.failed(e.slot.key, e2)
			continue
		}
		for _, value := range values {
			x.place(e, value, obj)
		}
	}
	c.indexes = append(slices.Clip(c.indexes), x)
	return err
}

// named returns an index by its name; the words of the error are client-go's.
func (c *contents) named(name string) (*index, error) {
	for _, x := range c.indexes {
		if x.name == name && x.values != nil {
			return x, nil
		}
	}
	return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // as client-go says it
}
