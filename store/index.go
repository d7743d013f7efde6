package store

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Index finds objects by values of type K that a function computes from them. It is
// made once, given to a store by [Options.Indexes] or [Store.AddIndex], and queried with
// any snapshot of that store:
//
//	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
//	…
//	for pod := range byNode.Get(snap, "node-7") { … }
//
// One Index may serve several stores. Querying it with a snapshot of a store that it was
// not given to panics. A snapshot older than the index is answered by looking at every
// object.
//
// An index function may be called by several goroutines at once: by the writer, by those that encode
// objects for a store in a [Form], and by readers of snapshots older than the index. It must depend on
// nothing but the object and should be fast.
type Index[T any, K comparable] struct {
	label  string
	one    func(T) K
	many   func(T, func(K)) error
	order  func(a, b K) int
	fields []object.FieldPath // that the function reads; nil for any
	by     *Reading[T]        // of the objects that the function is given; nil for that of the store
}

// AnyIndex is an [Index] of T with any type of values, for [Options.Indexes].
type AnyIndex[T any] interface {
	// Name returns the name that the index was made with.
	Name() string

	bind(s *Store[T]) bound[T]
	boundTo(b bound[T]) bool
}

// NewIndex creates an index of objects that have exactly one value each. The name appears in
// errors and statistics.
func NewIndex[T any, K comparable](name string, value func(T) K) *Index[T, K] {
	return &Index[T, K]{label: name, one: value}
}

// NewMultiIndex creates an index of objects that have any number of values: the function calls
// add for each. Adding a value twice is the same as once. If the function returns an error, the
// object has no value in the index.
func NewMultiIndex[T any, K comparable](name string, values func(obj T, add func(K)) error) *Index[T, K] {
	return &Index[T, K]{label: name, many: values}
}

// NewOwnerIndex makes the index of objects by the UIDs of their owners.
func NewOwnerIndex[T metav1.Object]() *Index[T, object.UID] {
	return NewMultiIndex("owner", func(obj T, add func(object.UID)) error {
		for _, owner := range obj.GetOwnerReferences() {
			add(owner.UID)
		}
		return nil
	}).Reads(object.FieldPath{"metadata", "ownerReferences"})
}

// Ordered makes the index yield its values in their natural order, from [Index.Keys]. It changes and returns x, and must be called before x is used.
func Ordered[T any, K cmp.Ordered](x *Index[T, K]) *Index[T, K] { return x.OrderedBy(cmp.Compare) }

// OrderedBy is [Ordered] with an order of the caller's. Values that compare equal must be
// equal.
func (x *Index[T, K]) OrderedBy(compare func(a, b K) int) *Index[T, K] {
	x.order = compare
	return x
}

// Reads says which fields of an object the index function reads, and that it reads no others. A
// compact mirror then need not decode whole objects for the index: all other fields of the object
// that it calls the function with may be zero. The function must not keep the object, or a pointer to
// one of its fields, whose memory is used again; it may keep strings. [NewOwnerIndex] and a [NewLabelIndex]
// without a function say so themselves. It changes and returns x, and must be called before x is
// used.
func (x *Index[T, K]) Reads(fields ...object.FieldPath) *Index[T, K] {
	x.fields = append([]object.FieldPath{}, fields...)
	return x
}

// By says how a compact store decodes the objects that the index function is called with. It changes and
// returns x, and must be called before x is used.
func (x *Index[T, K]) By(r *Reading[T]) *Index[T, K] {
	x.by, x.fields = r, []object.FieldPath{}
	return x
}

// Name implements [AnyIndex].
func (x *Index[T, K]) Name() string { return x.label }

// values calls add for every value of obj.
func (x *Index[T, K]) values(obj T, add func(K)) error {
	if x.one != nil {
		add(x.one(obj))
		return nil
	}
	return x.many(obj, add)
}

// in returns the index as the snapshot's store keeps it; nil if the snapshot is older and
// has to be scanned.
func (x *Index[T, K]) in(n Snapshot[T]) *postings[T, K] {
	n.check()
	for _, b := range *n.store.indexes.Load() {
		if p, ok := b.(*postings[T, K]); ok && p.def == x {
			if n.state.Revision < p.since {
				return nil
			}
			return p
		}
	}
	panic(fmt.Sprintf("store: index %q was not given to this store; use Options.Indexes or AddIndex", x.label))
}

// Get yields the objects that have the value k, each once, in no particular order.
func (x *Index[T, K]) Get(n Snapshot[T], k K) iter.Seq[T] {
	return func(yield func(T) bool) { x.visit(n, k, yield) }
}

func (x *Index[T, K]) visit(n Snapshot[T], k K, yield func(T) bool) {
	if n.store == nil {
		return
	}
	p := x.in(n)
	if p == nil {
		x.scan(n, func(obj T, values []K) bool {
			return !slices.Contains(values, k) || yield(obj)
		})
		return
	}
	var few fetch[T]
	more := p.Find(k).Visit(p.sees(n, k), func(id uint32) bool { return few.add(id) || few.flush(n, yield) })
	if more {
		few.flush(n, yield)
	}
	runtime.KeepAlive(n.lease)
}

// Count returns the number of objects that have the value k.
func (x *Index[T, K]) Count(n Snapshot[T], k K) int {
	if n.store == nil {
		return 0
	}
	count := 0
	if p := x.in(n); p != nil {
		p.Find(k).Visit(p.sees(n, k), func(uint32) bool { count++; return true })
		runtime.KeepAlive(n.lease)
		return count
	}
	x.visit(n, k, func(T) bool { count++; return true })
	return count
}

// ObjectKeys returns the keys of the objects that have the value k as text, "namespace/name", in no
// particular order. It reads no object, unless the snapshot is older than the index.
func (x *Index[T, K]) ObjectKeys(n Snapshot[T], k K) []string {
	keys := newKeyTexts(x.Size(n, k))
	if n.store == nil {
		return keys.keys
	}
	if p := x.in(n); p != nil {
		p.Find(k).Visit(p.sees(n, k), func(id uint32) bool {
			keys.add(n.store.objects.Key(id))
			return true
		})
		runtime.KeepAlive(n.lease)
	} else {
		x.visit(n, k, func(obj T) bool {
			if key, err := n.store.acc.Key(obj); err == nil {
				keys.add(key)
			}
			return true
		})
	}
	return keys.keys
}

// Find returns the keys of the objects that have a value in the index of that name, as
// [Index.ObjectKeys] does. The value is given as text, as fmt.Sprint formats it. It is for tools
// that know an index only by its name; if several have it, the first one is used. ok is false if
// the store has no such index.
func (n Snapshot[T]) Find(index, value string) (keys []string, ok bool) {
	if n.store == nil {
		return nil, false
	}
	for _, b := range *n.store.indexes.Load() {
		if b.name() == index {
			return b.objectKeys(n, value), true
		}
	}
	return nil, false
}

func (p *postings[T, K]) objectKeys(n Snapshot[T], value string) []string {
	if t := reflect.TypeFor[K](); t.Kind() == reflect.String {
		return p.def.ObjectKeys(n, reflect.ValueOf(value).Convert(t).Interface().(K))
	}
	for k := range p.def.Keys(n) {
		if fmt.Sprint(k) == value {
			return p.def.ObjectKeys(n, k)
		}
	}
	return nil
}

// Size returns approximately how many objects have the value k, in constant time: it may count
// changes that the snapshot does not see. Use it to preallocate a result.
func (x *Index[T, K]) Size(n Snapshot[T], k K) int {
	if n.store == nil {
		return 0
	}
	if p := x.in(n); p != nil {
		return p.Find(k).Count()
	}
	return 0
}

// Keys yields every value that some object has, in order if the index is [Ordered].
func (x *Index[T, K]) Keys(n Snapshot[T]) iter.Seq[K] {
	return func(yield func(K) bool) { x.walkKeys(n, yield) }
}

func (x *Index[T, K]) walkKeys(n Snapshot[T], yield func(K) bool) {
	if n.store == nil {
		return
	}
	p := x.in(n)
	if p == nil {
		x.scanKeys(n, yield)
		return
	}
	p.Values(nil, func(k K, m *mvcc.Members[K]) bool {
		// A value is there if one object has it.
		none := m.Visit(p.sees(n, k), func(uint32) bool { return false })
		return none || yield(k)
	})
	runtime.KeepAlive(n.lease)
}

// Like yields the objects that share a value with obj, each once; obj itself is among
// them if it is in the snapshot. It yields nothing when the index function fails on obj.
func (x *Index[T, K]) Like(n Snapshot[T], obj T) iter.Seq[T] {
	return func(yield func(T) bool) {
		if n.store == nil {
			return
		}
		var wanted []K
		if x.guarded(obj, func(k K) { wanted = append(wanted, k) }) != nil {
			return
		}
		p := x.in(n)
		if p == nil {
			x.scan(n, func(obj T, values []K) bool {
				shared := slices.ContainsFunc(values, func(k K) bool { return slices.Contains(wanted, k) })
				return !shared || yield(obj)
			})
			return
		}
		seen := bitset{}
		for _, k := range wanted {
			more := p.visit(n, k, func(id uint32, obj T) bool {
				return !seen.add(id) || yield(obj)
			})
			if !more {
				return
			}
		}
	}
}

// visit yields the objects that have the value k in the snapshot.
func (p *postings[T, K]) visit(n Snapshot[T], k K, yield func(id uint32, obj T) bool) bool {
	objects, revision := n.store.objects, n.state.Revision
	more := p.ids(n, k, func(id uint32) bool { return yield(id, n.load(objects.At(id, revision))) })
	runtime.KeepAlive(n.lease)
	return more
}

// ids yields the ids of the objects that have the value k in the snapshot.
func (p *postings[T, K]) ids(n Snapshot[T], k K, yield func(id uint32) bool) bool {
	more := p.Find(k).Visit(p.sees(n, k), yield)
	runtime.KeepAlive(n.lease)
	return more
}

// sees returns a function that reports, from the object itself, whether an id has the value k
// in the snapshot.
func (p *postings[T, K]) sees(n Snapshot[T], k K) func(id uint32) bool {
	return func(id uint32) bool {
		held := n.store.objects.At(id, n.state.Revision)
		if held == nil {
			return false
		}
		found := false
		err := p.def.guarded(n.store.read(p.def.by, held), func(value K) { found = found || value == k })
		return found && err == nil
	}
}

// scan yields every object with its values, computed now, for a snapshot that is older
// than the index. An object on which the function fails has none.
func (x *Index[T, K]) scan(n Snapshot[T], yield func(obj T, values []K) bool) {
	var values []K
	add := func(k K) { values = append(values, k) }
	n.each(func(_ object.Key, p mvcc.Value) bool {
		values = values[:0]
		if x.guarded(n.store.read(x.by, p), add) != nil {
			values = values[:0]
		}
		return yield(n.load(p), values)
	})
}

func (x *Index[T, K]) scanKeys(n Snapshot[T], yield func(K) bool) {
	var keys []K
	seen := map[K]bool{}
	x.scan(n, func(_ T, values []K) bool {
		for _, k := range values {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
		return true
	})
	if x.order != nil {
		slices.SortFunc(keys, x.order)
	}
	for _, k := range keys {
		if !yield(k) {
			return
		}
	}
}

// guarded calls values; a panic of the index function is an error.
func (x *Index[T, K]) guarded(obj T, add func(K)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("index function panicked: %v", r)
		}
	}()
	return x.values(obj, add)
}
