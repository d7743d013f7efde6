package protodec

import (
	"reflect"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// entry is one entry of a map while the map is being read.
type entry struct {
	key, value []byte
	valued     bool // whether there was a value at all

	keyText, valueText string
}

// entrySize is about what an entry costs in a map: key, value, control byte, slack.
const entrySize = 48

// mapping decodes a run of map entries.
func (s *state) mapping(f *field, p unsafe.Pointer, b []byte, at, i int) (int, error) {
	end, n := runOf(b, at, i)
	if n == 0 {
		return 0, errTruncated
	}
	m := (*unsafe.Pointer)(p) // a map is a pointer to what it holds
	if s.share == nil {
		return end, s.fill(f, p, b, at, end, i-at, n)
	}
	if *m != nil {
		return 0, errUnshare // it may be shared: not to be added to
	}
	known, t := s.find(f, b[at:end])
	if known != nil {
		*m = known.Data
		return end, nil
	}
	err := s.fill(f, p, b, at, end, i-at, n)
	s.keep(f, t, b[at:end], *m, n, err)
	return end, err
}

// batch is how many entries are read before they are added to the map. It keeps what
// a map with very many entries needs besides itself within bounds.
const batch = 256

// fill reads the n entries of the run b[at:end] and adds them to the map at p.
func (s *state) fill(f *field, p unsafe.Pointer, b []byte, at, end, tag, n int) error {
	// Five bytes are the least for an entry with a key of its own: hostile entries
	// that have none are not worth room.
	room := min(n, 1+(end-at)/5)
	if f.only != nil {
		room = min(room, len(f.only))
	}
	from := len(s.entries)
	for i := at; i < end; {
		start, stop := span(b, i+tag)
		e, err := s.entry(f, b, start, stop)
		if err != nil {
			return err
		}
		i = stop
		if (f.absent == nil || !slices.Contains(f.absent, string(e.key))) && (f.only == nil || slices.Contains(f.only, string(e.key))) {
			s.entries = append(s.entries, e)
		}
		if len(s.entries)-from < batch && i < end {
			continue
		}
		if err := s.add(f, p, from, room); err != nil {
			return err
		}
		clear(s.entries[from:])
		s.entries = s.entries[:from]
	}
	return nil
}

// add adds the entries from the given index on to the map at p, which is made with the
// given room if it is not there.
func (s *state) add(f *field, p unsafe.Pointer, from, room int) error {
	entries := s.entries[from:]
	if len(entries) == 0 {
		return nil // all dropped
	}
	s.cost += len(entries) * entrySize
	switch f.kind {
	case mapStrings:
		m := (*map[string]string)(p)
		if *m == nil {
			*m = make(map[string]string, room)
		}
		// The strings have to be where they stay before they go into the map.
		outer := s.open()
		for i := range entries {
			e := &entries[i]
			s.text(f.keys, &e.keyText, e.key)
			s.text(f.site, &e.valueText, e.value)
		}
		s.close(outer)
		for i := range entries {
			(*m)[entries[i].keyText] = entries[i].valueText
		}
	case mapBytes:
		m := (*map[string][]byte)(p)
		if *m == nil {
			*m = make(map[string][]byte, room)
		}
		for _, e := range entries {
			s.cost += len(e.value)
			(*m)[s.owned(f.keys, e.key)] = append(make([]byte, 0, len(e.value)), e.value...)
		}
	case mapQuantities:
		m := (*map[string]resource.Quantity)(p)
		if *m == nil {
			*m = make(map[string]resource.Quantity, room)
		}
		for _, e := range entries {
			var q resource.Quantity
			if err := s.quantity(&q, e.value, f.site); err != nil {
				return err
			}
			(*m)[s.owned(f.keys, e.key)] = q
		}
	default:
		return s.addAny(f, p, from, room)
	}
	return nil
}

// addAny adds entries by reflection.
func (s *state) addAny(f *field, p unsafe.Pointer, from, room int) error {
	m := reflect.NewAt(f.typ, p).Elem()
	if m.IsNil() {
		m.Set(reflect.MakeMapWithSize(f.typ, room))
	}
	key := reflect.New(f.typ.Key()).Elem()
	for i := from; i < len(s.entries); i++ {
		e := s.entries[i] // not by a slice: values may hold maps, and entries grow
		outer := s.open()
		value := s.alloc(f.sub)
		err := s.into(f.sub, value, e.value)
		s.close(outer)
		if err != nil {
			return err
		}
		key.SetString(s.owned(f.keys, e.key))
		m.SetMapIndex(key, reflect.NewAt(f.sub.typ, value).Elem())
	}
	return nil
}

// entry reads one entry, b[start:stop]. The generated code lets a key or a value run
// over the end of its entry and continues at that end nevertheless; so does this.
func (s *state) entry(f *field, b []byte, start, stop int) (entry, error) {
	var e entry
	i := start
	for i < stop {
		at := i
		var wire uint64
		if wire, i = varint(b, i); i < 0 {
			return e, errTruncated
		}
		number := int32(wire >> 3)
		if number != 1 && number != 2 {
			if i = skip(b, at); i < 0 || i > stop {
				return e, errTruncated
			}
			continue
		}
		from, to := span(b, i) // whatever the wire type, as in the generated code
		if to < 0 {
			return e, errTruncated
		}
		i = to
		if number == 1 {
			e.key = b[from:to]
			continue
		}
		if e.valued && f.sub != nil {
			// Only the last value counts, but all of them must be sound.
			if err := s.into(f.sub, s.alloc(f.sub), e.value); err != nil {
				return e, err
			}
			s.settle()
		}
		e.value, e.valued = b[from:to], true
	}
	if i > stop && s.share != nil {
		return e, errUnshare // what the entry holds depends on what follows it
	}
	return e, nil
}
