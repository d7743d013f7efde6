package simtest

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
)

// Object is what a server can have: the built-in kinds, for example.
type Object interface {
	metav1.Object
	runtime.Object
}

// Server is an API server for one resource: the objects, one version that each change
// increments, and every change since the last compaction. It answers as a real one does
// unless the test says otherwise, except that it never ends a watch, sends no bookmarks of
// its own, and of a selection only knows the namespace.
//
// Keys are strings like "shop/web". All methods may be called from any goroutine. The server
// never writes to an object that it has stored, and no caller may.
type Server[T Object] struct {
	// OnList and OnWatch answer the nth request of their kind, from 1 on, if they return
	// true. The server calls them without its lock. A test sets these fields within Do, or
	// while every other goroutine is blocked and before another call of a method. Default to
	// none.
	OnList  func(n int, opts object.ListOptions, sink func(object.Item[T]) error) (object.Page, error, bool)
	OnWatch func(n int, opts object.WatchOptions) (object.Stream[T], error, bool)
	// OnWrite is called when a client's write begins, and its error refuses the write.
	// Set like OnList. Defaults to none.
	OnWrite WriteFunc
	// Streams accepts streaming lists. Set like OnList. Defaults to false: they get 400.
	Streams bool
	// Unlimited is the version at which a list ignores its limit. Set like OnList. Defaults
	// to "0".
	Unlimited object.Version

	mu        sync.Mutex // guards everything below
	version   int
	compacted int // watches begin here or later
	objects   map[object.Key]T
	history   []object.Event[T]
	held      bool
	backlog   []object.Event[T] // the part of the history that is held back
	streams   []*Stream[T]
	refused   map[string]error // of lists of a namespace, "" for all
	requests  []string
	counts    Counts
}

// Counts is how much a server was asked for.
type Counts struct {
	// Lists is the number of pages, Watches that of watches and streaming lists.
	Lists, Watches int
	// Decoded is the number of listed items that the reader did not hold.
	Decoded int
}

// New makes a server at a version and creates objects, each at the next version.
func New[T Object](version int, keys ...string) *Server[T] {
	s := &Server[T]{Unlimited: "0", version: version, objects: map[object.Key]T{}, refused: map[string]error{}}
	for _, k := range keys {
		s.Set(k)
	}
	s.Compact()
	return s
}

// Pods makes a server of pods, the first at version 101.
func Pods(keys ...string) *Server[*corev1.Pod] { return New[*corev1.Pod](100, keys...) }

// Set creates or updates an object and returns its new state. The UID of an object that is
// created at version 101 is "u101".
func (s *Server[T]) Set(key string, edits ...func(T)) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := object.RawKey(key)
	obj, ok := s.objects[k]
	if ok {
		obj = clone(obj)
	} else {
		obj = reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		obj.SetNamespace(k.Namespace)
		obj.SetName(k.Name)
		obj.SetUID(s.nextUID())
	}
	for _, edit := range edits {
		edit(obj)
	}
	return s.put(obj)
}

// Delete removes an object, whatever its finalizers, and returns its last state with the
// version of the deletion.
func (s *Server[T]) Delete(key string) T { return s.DeleteTogether(1, key) }

// DeleteTogether removes objects at one version, as the end of an etcd lease does. Open
// watches receive only the first few deletions. It returns the last state of the first.
func (s *Server[T]) DeleteTogether(sent int, keys ...string) (first T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for i, key := range keys {
		last := clone(s.objects[object.RawKey(key)])
		last.SetResourceVersion(strconv.Itoa(s.version))
		s.remove(last, i < sent)
		if i == 0 {
			first = last
		}
	}
	return first
}

// Load makes these objects the state at a version, as a restore from a backup does. It
// forgets the history and cuts all watches.
func (s *Server[T]) Load(version int, objs ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut(io.ErrUnexpectedEOF)
	s.version, s.compacted = version, min(s.compacted, version)
	s.history, s.backlog = nil, nil
	clear(s.objects)
	for _, obj := range objs {
		s.objects[KeyOf(obj)] = obj
	}
}

// Get returns an object, or nil if there is none.
func (s *Server[T]) Get(key string) (v T) {
	s.Do(func() { v = s.objects[object.RawKey(key)] })
	return v
}

// Objects returns all objects in the order of their keys.
func (s *Server[T]) Objects() (v []T) {
	s.Do(func() { v = s.sorted() })
	return v
}

// History returns the events since the last compaction.
func (s *Server[T]) History() (v []object.Event[T]) {
	s.Do(func() { v = slices.Clone(s.history) })
	return v
}

// Version returns the newest version.
func (s *Server[T]) Version() (v object.Version) {
	s.Do(func() { v = s.now() })
	return v
}

// SetVersion makes a version the newest one, as changes of other resources do.
func (s *Server[T]) SetVersion(version int) { s.Do(func() { s.version = version }) }

// Do runs f with the server's lock held, so that a hook which the server calls later sees
// what f wrote.
func (s *Server[T]) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Bookmark increments the version, sends it to all watches as a bookmark and returns it.
func (s *Server[T]) Bookmark() object.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.send(object.Event[T]{Bookmark: true, Item: object.Item[T]{Version: s.now()}})
	return s.now()
}

// Compact forgets the history: watches from before the present version get 410.
func (s *Server[T]) Compact() { s.Do(func() { s.compacted, s.history = s.version, nil }) }

// Expire compacts the history and cuts all watches, at a new version, so that every reader
// has to list.
func (s *Server[T]) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.compacted, s.history = s.version, nil
	s.cut(io.EOF)
}

// Cut ends all watches with an error, io.EOF for the regular end. Each first delivers what
// it was sent.
func (s *Server[T]) Cut(err error) { s.Do(func() { s.cut(err) }) }

// Mute leaves the open watches open and sends them nothing more.
func (s *Server[T]) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.muted = true
	}
}

// Hold holds the events of all watches back, or sends those that were held back.
func (s *Server[T]) Hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
	if !on {
		for _, ev := range s.backlog {
			s.send(ev)
		}
		s.backlog = nil
	}
}

// Refuse answers lists of a namespace, or of everything for "", with an error. A nil error
// ends that.
func (s *Server[T]) Refuse(namespace string, err error) { s.Do(func() { s.refused[namespace] = err }) }

// Stream returns the watch that was opened last.
func (s *Server[T]) Stream() *Stream[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) == 0 {
		return nil
	}
	return s.streams[len(s.streams)-1]
}

// Requests returns the requests since the last call: `LIST "0" limit=500`, `WATCH "101"`,
// `STREAM "101" NotOlderThan` for a streaming list.
func (s *Server[T]) Requests() (v []string) {
	s.Do(func() { v, s.requests = s.requests, nil })
	return v
}

// Counts returns how much the server was asked for.
func (s *Server[T]) Counts() (v Counts) {
	s.Do(func() { v = s.counts })
	return v
}

func (s *Server[T]) now() object.Version   { return object.Version(strconv.Itoa(s.version)) }
func (s *Server[T]) nextUID() object.UID   { return object.UID(fmt.Sprint("u", s.version+1)) }
func clone[T runtime.Object](obj T) T      { return obj.DeepCopyObject().(T) }
func number(v object.Version) (int, error) { return strconv.Atoi(string(v)) }

func (s *Server[T]) sorted() []T {
	return slices.SortedFunc(maps.Values(s.objects), func(a, b T) int { return KeyOf(a).Compare(KeyOf(b)) })
}

// put stores an object at the next version.
func (s *Server[T]) put(obj T) T {
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	kind := object.Added
	if _, ok := s.objects[KeyOf(obj)]; ok {
		kind = object.Updated
	}
	s.objects[KeyOf(obj)] = obj
	s.note(kind, obj, true)
	return obj
}

// remove deletes an object whose last state this is.
func (s *Server[T]) remove(last T, sent bool) {
	delete(s.objects, KeyOf(last))
	s.note(object.Deleted, last, sent)
}

// note makes a change part of the history and sends it to open watches.
func (s *Server[T]) note(kind object.Kind, obj T, sent bool) {
	ev := object.Event[T]{Kind: kind, Item: ItemOf(obj)}
	s.history = append(s.history, ev)
	switch {
	case s.held:
		s.backlog = append(s.backlog, ev)
	case sent:
		s.send(ev)
	}
}

func (s *Server[T]) send(ev object.Event[T]) {
	for _, st := range s.streams {
		st.deliver(ev)
	}
}

func (s *Server[T]) cut(err error) {
	for _, st := range s.streams {
		st.Fail(err)
	}
	s.streams = nil
}

// KeyOf returns the key of an object.
func KeyOf(obj metav1.Object) object.Key {
	return object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// ItemOf returns the item of an object.
func ItemOf[T Object](obj T) object.Item[T] {
	return object.Item[T]{Key: KeyOf(obj), UID: obj.GetUID(), Version: object.Version(obj.GetResourceVersion()), Value: object.Decoded(obj)}
}
