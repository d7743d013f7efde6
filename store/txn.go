package store

import (
	"fmt"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// txn is the revision in preparation. The store has one and reuses it for every transaction, so
// that a write allocates only a version and the published state. Writer only.
//
// The user's functions (accessor, form, index functions) run before the store is changed for an
// object, and their panics are caught: a transaction is never left incomplete.
type txn[T any] struct {
	store    *Store[T]
	root     root
	changes  []object.Change[T]
	problems []error
	// newEpoch means that the objects held are of an earlier epoch than the list being applied.
	// wasForeign means that the last write superseded an object of an earlier epoch.
	newEpoch, wasForeign bool

	follow bool // events move the places of their scopes, because the batch has marks
	// deleted has the versions of the batch's deletions, to find late events of scopes without
	// a mark.
	deleted map[object.Key]object.Version
	seen    bitset
	missing []uint32
	// cured are the unreadable objects that the list being applied has not named yet.
	cured  map[object.Key]struct{}
	loaded byte // see preload
}

// strictness says what a failing index function does.
type strictness bool

const (
	strict  strictness = true  // the object is not stored
	lenient strictness = false // the object is stored without values in that index
)

func (t *txn[T]) begin() { t.root = t.store.history.Current().Payload }

func (t *txn[T]) commit() {
	t.store.history.Publish(t.root)
	t.store.settle()
	clear(t.deleted)
	t.store.report()
}

// settle lets the indexes clean up after a publication or a sweep.
func (s *Store[T]) settle() {
	for _, x := range *s.indexes.Load() {
		x.settle()
	}
}

// put writes v as the newest version of key, which is at r.
func (t *txn[T]) put(key object.Key, r ref, v object.Value[T], id *identity, how strictness) (ref, error) {
	if c, ok := v.Encoded.(*cell[T]); ok {
		if values, ok := t.store.adopt(c, id); ok {
			var obj T
			var err error
			if len(values) < len(*t.store.indexes.Load()) { // an index was added since
				if obj, err = decoded(v); err != nil {
					return r, &ObjectError{Key: key, Cause: err}
				}
			}
			return t.write(key, r, heldCell(c), obj, values, id, how)
		}
	}
	// It is decoded, or encoded by another store.
	obj, err := decoded(v)
	if err == nil {
		var val mvcc.Value
		if val, err = t.store.hold(obj, id); err == nil {
			return t.write(key, r, val, obj, nil, id, how)
		}
	}
	return r, &ObjectError{Key: key, Cause: err}
}

// write makes val, which is how the store holds obj, the newest version of key. If the values
// that the indexes have for it were computed before, obj is not needed.
func (t *txn[T]) write(key object.Key, r ref, val mvcc.Value, obj T, values []any, id *identity, how strictness) (ref, error) {
	s := t.store
	held := s.objects.Live(r)
	indexes := *s.indexes.Load()
	for i := 0; i < len(indexes); i++ {
		var err error
		if i < len(values) {
			err = prepareValues(indexes[i], values[i], r)
		} else {
			i, err = s.prepare(indexes, i, obj, val, r)
		}
		if err != nil {
			failed := &IndexError{Key: key, Index: indexes[i].name(), Cause: err}
			if how == strict {
				return r, failed
			}
			s.failed(indexes[i], failed)
		}
	}
	if held != nil {
		s.checkMutation(key, held)
	}
	r = s.objects.Put(key, r, val)
	if held == nil {
		t.root.objects++
	}
	// After Put and before Publish: a reader of FindNote that loads a word of the new note then finds that the
	// stamp changed meanwhile, and one that sees the new revision finds the whole note.
	s.note(r.ID, &id.compact)
	for _, x := range indexes {
		x.commit(r.ID, false)
	}
	t.wasForeign = false
	if len(s.foreign) > 0 && s.foreign[r.ID] {
		delete(s.foreign, r.ID)
		t.wasForeign = true
		t.root.rewinds++
	}
	return r, nil
}

// failed counts and reports that an object has no values in an index.
func (s *Store[T]) failed(x bound[T], err *IndexError) {
	x.fail(err)
	if s.onIndexError != nil {
		s.onIndexError(err)
	}
}

// prepareValues is prepare of an index whose values were computed before.
func prepareValues[T any](x bound[T], values any, r ref) error {
	if failure, ok := values.(indexFailure); ok {
		return failure.error
	}
	x.prepareValues(values, r)
	return nil
}

// prepare has the indexes from i on compute the values of obj, which is held as val, until one
// fails: it returns that one with the error. A panic of an index function is an error.
func (s *Store[T]) prepare(indexes []bound[T], i int, obj T, val mvcc.Value, r ref) (at int, err error) {
	at = i
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("index function panicked: %v", p)
		}
	}()
	for ; at < len(indexes); at++ {
		x, of := indexes[at], obj
		if by := x.reading(); by != nil {
			of = s.read(by, val)
		}
		if err := x.prepare(of, r); err != nil {
			return at, err
		}
	}
	return at, nil
}

// remove deletes the key, which is alive at r.
func (t *txn[T]) remove(key object.Key, r ref) {
	s := t.store
	s.checkMutation(key, s.objects.Live(r))
	created := s.objects.Created(r)
	s.objects.Delete(r)
	t.root.objects--
	for _, x := range *s.indexes.Load() {
		x.prepareNone()
		x.commit(r.ID, created)
	}
	if len(s.foreign) > 0 {
		delete(s.foreign, r.ID)
	}
}

// takeProblems returns the errors since the last call.
func (t *txn[T]) takeProblems() []error {
	p := t.problems
	t.problems = nil
	return p
}

// bitset is a set of ids.
type bitset []uint64

func (b *bitset) reset(n uint32) {
	words := int(n/64) + 1
	if cap(*b) < words {
		*b = make(bitset, words)
		return
	}
	*b = (*b)[:words]
	clear(*b)
}

// add puts id in and reports whether it was not there.
func (b *bitset) add(id uint32) bool {
	for int(id/64) >= len(*b) {
		*b = append(*b, 0)
	}
	word, bit := &(*b)[id/64], uint64(1)<<(id%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (b bitset) has(id uint32) bool {
	return int(id/64) < len(b) && b[id/64]&(1<<(id%64)) != 0
}
