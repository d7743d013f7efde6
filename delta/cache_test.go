package delta_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/object"
)

// thing is the object type of these tests.
type thing struct {
	key     object.Key
	uid     object.UID
	version object.Version
	id      int // distinguishes objects; 0 where that does not matter
}

func (o *thing) String() string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s@%s#%d", o.key, o.version, o.id)
}

var things = object.Accessor[*thing]{
	Key:     func(o *thing) (object.Key, error) { return o.key, nil },
	UID:     func(o *thing) object.UID { return o.uid },
	Version: func(o *thing) object.Version { return o.version },
}

// cache is a consumer's store: a map that is iterated in key order.
type cache struct {
	mu sync.Mutex // guards m
	m  map[object.Key]*thing
}

func newCache(objs ...*thing) *cache {
	c := &cache{m: map[object.Key]*thing{}}
	for _, o := range objs {
		c.m[o.key] = o
	}
	return c
}

func (c *cache) Keys() iter.Seq[object.Key] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(slices.SortedFunc(maps.Keys(c.m), object.Key.Compare))
}

func (c *cache) Get(key object.Key) (*thing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.m[key]
	return o, ok
}

func (c *cache) Held(key object.Key, uid object.UID, version object.Version) bool {
	o, ok := c.Get(key)
	return ok && o.uid == uid && o.version == version
}

// twice is a cache that yields every key twice.
type twice struct{ *cache }

func (c twice) Keys() iter.Seq[object.Key] {
	keys := slices.Collect(c.cache.Keys())
	return slices.Values(append(keys, keys...))
}

// apply applies deltas like a store.
func (c *cache) apply(deltas []object.Change[*thing]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range deltas {
		switch {
		case d.List != nil:
			replaceIn(c.m, *d.List)
		case d.Kind == object.Deleted:
			delete(c.m, d.Key)
		case d.Kind == object.Quarantined:
			// Which life it is of, a store decides.
		default:
			c.m[d.Key] = d.Value.Object
		}
	}
}

// replaceIn applies a list to a state.
func replaceIn(m map[object.Key]*thing, list object.List[*thing]) {
	for key := range m {
		if !lists(list, key) && list.Scope.Covers(key) {
			delete(m, key)
		}
	}
	for _, item := range list.Items {
		if item.Err == nil && !item.Held {
			m[item.Key] = item.Object
		}
	}
}

// lists reports whether a list has, or may have, an item with the key.
func lists(list object.List[*thing], key object.Key) bool {
	return slices.ContainsFunc(list.Items, func(i object.Item[*thing]) bool {
		return i.Key == key || i.Err != nil && i.Key.IsZero()
	})
}

// stateOf returns a comparable form of a state.
func stateOf(m map[object.Key]*thing) string {
	objs := slices.SortedFunc(maps.Values(m), func(a, b *thing) int {
		return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.version, b.version))
	})
	return fmt.Sprint(objs)
}
