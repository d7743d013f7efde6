package store

import (
	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// lookahead looks up the items of a list. These come in the order of their keys, mostly, and
// most of them are held: the next item is likely to be the next one in the store's order. So a
// key is compared with that one, without a hash; and since it is known which come next, the
// processor can be made to fetch some of them, and of the items, at a time.
type lookahead[T any] struct {
	store  *Store[T]
	items  []object.Item[T]
	cursor *mvcc.Cursor[uint32, object.Key]
	ids    [16]uint32 // what the cursor has gone past
	at, n  int        // of ids: the next one, and how many there are
	astray int        // items in a row that were not the next one
	sink   byte       // so that loads are not left out
}

func (s *Store[T]) lookahead(items []object.Item[T]) *lookahead[T] {
	return &lookahead[T]{store: s, items: items, cursor: s.order.Cursor()}
}

// lookup returns the ref of the key of the item at i. Items are looked up in their order, and
// nothing is inserted into the store's order meanwhile.
func (a *lookahead[T]) lookup(i int, k object.Key) ref {
	objects := a.store.objects
	if a.at == a.n {
		a.fetch(i)
	}
	if a.at < a.n && objects.Is(a.ids[a.at], k) {
		a.at++
		a.astray = 0
		return mvcc.RefTo(a.ids[a.at-1])
	}
	r := objects.Lookup(k)
	// An item that is new leaves the others where they are. After one that is elsewhere the
	// next ones are likely to be there too; in a list without order they are not.
	if a.astray++; r.Known() && (a.astray < 8 || a.astray%64 == 0) {
		a.cursor.Seek(k)
		a.at, a.n = 0, 0
		if id, ok := a.cursor.Next(); ok && id != r.ID {
			a.ids[0], a.n = id, 1
		}
	}
	return r
}

// fetch gets the next ids.
func (a *lookahead[T]) fetch(i int) {
	a.at, a.n = 0, 0
	for a.n < len(a.ids) {
		id, ok := a.cursor.Next()
		if !ok {
			break
		}
		a.ids[a.n] = id
		a.n++
	}
	for _, id := range a.ids[:a.n] {
		a.store.objects.Glance(id)
	}
	for j := i; j < min(i+a.n, len(a.items)); j++ {
		item := &a.items[j]
		if item.UID != "" && item.Version != "" && item.Key.Name != "" {
			a.sink ^= item.UID[0] ^ item.Version[0] ^ item.Key.Name[0]
		}
	}
}
