package store

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Options configure a [Store]. The zero Options are a store of decoded objects without
// indexes.
type Options[T any] struct {
	// Indexes are the initial indexes; [Store.AddIndex] adds more. Defaults to none.
	Indexes []AnyIndex[T]
	// Form is how objects are held. Defaults to decoded.
	Form *Form[T]
	// Verbatim makes Apply and Replace apply and report every change as the source sends it,
	// regardless of UID and version; see [Store.Apply]. Defaults to false: events that are not
	// newer change nothing.
	Verbatim bool
	// OnIndexError is called when an index function fails or panics on an object. The object is
	// stored without values in that index. The function runs with the writer's lock held: it may
	// read the store, but must not write to it or call Stats. Defaults to none; [Store.Stats]
	// counts failures in any case.
	OnIndexError func(*IndexError)
	// OnMutation enables the mutation detector: it is called when a caller wrote to an
	// object of the store. The store then keeps a copy of every object and compares it
	// when the object is replaced or deleted, and on [Store.CheckMutations]. The function
	// runs with the writer's lock held: it may read the store, but must not write to it or
	// call Stats. Defaults to nil: no detection.
	OnMutation func(Mutation)
	// Copy makes deep copies for OnMutation. Defaults to the object's own
	// DeepCopyObject; New fails if there is neither.
	Copy func(T) T
}

// Store holds the objects of one resource and their indexes.
//
// Any method may be called from any goroutine. Methods that write take turns on one
// lock; methods that read take none and see the last complete write.
//
// Rejected: a map under a RWMutex (a reader waits for a whole Replace, and a consistent
// list is a copy), and persistent trees of objects (a path is copied for every update).
// The measurements are in docs/decisions.
type Store[T any] struct {
	acc     object.Accessor[T]
	form    *Form[T]
	objects *mvcc.Map
	marks   *mvcc.Map // of all scopes but the first, by their names; see setMark
	// unreadable has what the server has and could not be read; see Snapshot.Unreadable.
	unreadable *mvcc.Map
	history    *mvcc.History[root]
	indexes    atomic.Pointer[[]bound[T]]
	direct     bool // objects are pointers, not nil, and are held decoded
	// verbatim: see Options.Verbatim.
	verbatim     bool
	onIndexError func(*IndexError) // or nil
	// onMutation is nil if the mutation detector is off.
	onMutation func(Mutation)
	copyObject func(T) T // for the detector; nil if there is none

	// Writer only:
	rows rows
	// foreign are the ids of objects of an earlier epoch that a list of the current epoch had but
	// could not be decoded. Their versions do not compare with others.
	foreign map[uint32]bool
	stale   uint64 // events that changed nothing
	// places has the progress of each scope, and place is one of them: mostly the only one.
	places map[object.Scope]*place
	place  *place
	// reports are the mutations that the transaction found.
	reports []Mutation

	mu sync.Mutex // guards tx and the writer-only fields
	tx txn[T]
}

// root is what a revision publishes besides the chains of versions.
type root struct {
	objects    int
	unreadable int // in Store.unreadable
	// rewinds counts the lists that began an epoch, and the objects that followed one later:
	// between two revisions with the same number no object changed its epoch.
	rewinds uint64
	// mark is that of the first scope, nil if there is none; Store.marks has those of others.
	// It is not written to once it is here.
	mark *object.Mark
}

// A ref is a key as the writer finds it; a state is one published revision.
type (
	ref   = mvcc.Ref
	state = mvcc.State[root]
)

// New returns an empty store of objects that acc can read.
func New[T any](acc object.Accessor[T], opts Options[T]) (*Store[T], error) {
	if err := acc.Valid(); err != nil {
		return nil, err
	}
	s := &Store[T]{acc: acc, form: opts.Form, verbatim: opts.Verbatim, onIndexError: opts.OnIndexError, history: mvcc.NewHistory(root{}), foreign: map[uint32]bool{}, places: map[object.Scope]*place{}}
	if opts.OnMutation != nil {
		if err := s.detect(opts.OnMutation, opts.Copy); err != nil {
			return nil, err
		}
	}
	s.direct = s.form == nil && s.onMutation == nil && reflect.TypeFor[T]().Kind() == reflect.Pointer
	s.objects = mvcc.NewMap(s.history)
	s.objects.Widen(identWords)
	s.marks, s.unreadable = mvcc.NewMap(s.history), mvcc.NewMap(s.history)
	s.rows.objects = s.objects
	s.tx.store = s
	s.indexes.Store(new([]bound[T]))
	for _, x := range opts.Indexes {
		s.AddIndex(x)
	}
	return s, nil
}

// Must returns s, or panics if err is not nil: for stores whose options are constant.
func Must[T any](s *Store[T], err error) *Store[T] {
	if err != nil {
		panic(err)
	}
	return s
}

// Get returns the object with the given key. It takes no lock, pins nothing and allocates
// nothing.
func (s *Store[T]) Get(k object.Key) (obj T, ok bool) {
	p := s.find(k)
	if p == nil {
		return obj, false
	}
	return s.load(p), true
}

// UIDOf returns the UID of the object with the given key. It does not decode the object.
func (s *Store[T]) UIDOf(k object.Key) (uid object.UID, ok bool) {
	p := s.find(k)
	if p == nil {
		return "", false
	}
	return s.identity(p).uid, true
}

// find returns what the store now holds for a key, or nil.
func (s *Store[T]) find(k object.Key) mvcc.Value {
	// Without a pin, the value that the revision sees may be unlinked during the search. Then
	// the revision is no longer the current one.
	for {
		now := s.history.Current()
		p, sure := s.objects.Find(k, now.Revision)
		if sure || s.history.Current() == now {
			return p
		}
	}
}

// Held reports whether the store has the object of the key with exactly this UID and version. It
// returns false without a UID or a version.
func (s *Store[T]) Held(k object.Key, uid object.UID, version object.Version) bool {
	asked := identityFrom(uid, version)
	for {
		now := s.history.Current()
		p, note, sure := s.objects.FindNote(k, now.Revision)
		if !sure && s.history.Current() != now {
			continue
		}
		if p == nil {
			return false
		}
		held := identity{compact: note}
		if !held.both(&asked) {
			held = s.identity(p)
		}
		return held.same(&asked)
	}
}

// Len returns the number of objects.
func (s *Store[T]) Len() int { return s.history.Current().Payload.objects }

// Keys yields the key of every object of one revision, without order.
func (s *Store[T]) Keys() iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		s.View(func(snap Snapshot[T]) { snap.Keys()(yield) })
	}
}

// Set stores an object, regardless of its version, as one transaction. It returns an error and
// stores nothing if the object has no key, if the form cannot hold it, or if an index function
// fails ([*IndexError]).
func (s *Store[T]) Set(obj T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	item, err := s.itemOf(obj)
	if err != nil {
		return err
	}
	id := identityFrom(item.UID, item.Version)
	s.tx.begin()
	if _, err := s.tx.put(item.Key, s.objects.Lookup(item.Key), item.Value, &id, strict); err != nil {
		return err
	}
	s.tx.commit()
	return nil
}

// Delete removes the object with the given key and reports whether it existed.
func (s *Store[T]) Delete(k object.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.objects.Lookup(k)
	if s.objects.Live(r) == nil {
		return false
	}
	s.tx.begin()
	s.tx.remove(k, r)
	s.tx.commit()
	return true
}

// Replace makes objs, and nothing else, the content of the store, as one transaction,
// at a version that may be empty. Objects with the same UID and version are kept, unless the
// store is verbatim.
// As in [Store.Apply], an object is stored even if an index function fails.
// Objects that cannot be stored are named in the error and left out; the others are stored.
func (s *Store[T]) Replace(version object.Version, objs ...T) error {
	list := object.List[T]{Mark: object.Mark{Version: version}, Items: make([]object.Item[T], 0, len(objs))}
	var problems []error
	for _, obj := range objs {
		item, err := s.itemOf(obj)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list.Items = append(list.Items, item)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx.begin()
	mark, _ := s.markOf(list.Scope)
	s.tx.list(&list, mark.Epoch)
	s.tx.commit()
	s.tx.changes = nil // Replace does not return them
	return errors.Join(append(problems, s.tx.takeProblems()...)...)
}

// itemOf reads an object's key and identity; a panic of the accessor is an error.
func (s *Store[T]) itemOf(obj T) (item object.Item[T], err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: accessor panicked on a value of type %T: %v", obj, r)
		}
	}()
	return object.ItemOf(s.acc, obj)
}

// identity returns the identity of what is held. It is empty where the accessor panics.
func (s *Store[T]) identity(p mvcc.Value) (id identity) {
	if !s.direct {
		return cellAt[T](p).identity()
	}
	defer func() { _ = recover() }()
	obj := fromPointer[T](p)
	id.uid, id.version = s.acc.UIDOf(obj), s.acc.VersionOf(obj)
	return id
}
