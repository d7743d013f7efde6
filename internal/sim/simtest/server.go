package simtest

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// Object is what a server can have: the built-in kinds, for example.
type Object interface {
	metav1.Object
	runtime.Object
}

// Server is one resource of an embedded API server, and a source of its objects in which a test
// interferes. Each change increments the version. It sends no bookmarks of its own, and of a
// selection only knows the namespace.
//
// Keys are strings like "shop/web". All methods may be called from any goroutine, but those that
// interfere with streams, such as Cut, only by one at a time: they first let arrive what was sent.
type Server[T Object] struct {
	// OnList and OnWatch answer the nth request of their kind, from 1 on, if they return
	// true. The server calls them without its lock. A test sets these fields within Do, or
	// while every other goroutine is blocked and before another call of a method. Default to
	// none.
	OnList  func(n int, opts object.ListOptions, sink func(object.Item[T]) error) (object.Page, error, bool)
	OnWatch func(n int, opts object.WatchOptions) (object.Stream[T], error, bool)
	// Streams accepts streaming lists. Set like OnList. Defaults to false: they get 400.
	Streams bool
	// Unlimited is the version at which a list ignores its limit. Set like OnList. Defaults
	// to "0".
	Unlimited object.Version

	api      *apiserver.Server
	resource wire.Resource[T]
	source   *source[T] // Protobuf

	mu       sync.Mutex // guards everything below
	history  []object.Event[T]
	held     bool
	streams  []*Stream[T]
	refused  map[string]error // of lists of a namespace, "" for all
	requests []string
	counts   Counts
	tokens   map[string]string // the server's continue tokens by those of readers
}

// Counts is how much a server was asked for.
type Counts struct {
	// Lists is the number of pages, Watches that of watches and streaming lists.
	Lists, Watches int
	// Decoded is the number of listed items that the reader did not hold.
	Decoded int
}

// Via is the encoding in which objects reach a reader.
type Via string

// The encodings.
const (
	Protobuf Via = "protobuf"
	JSON     Via = "json"
)

// Each runs a test for each Via, in a bubble of virtual time.
func Each(t *testing.T, test func(t *testing.T, via Via)) {
	t.Helper()
	for _, via := range []Via{Protobuf, JSON} {
		t.Run("source="+string(via), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, via) })
		})
	}
}

// New makes a server at a version and creates objects, each at the next version.
func New[T Object](version int, keys ...string) *Server[T] {
	s := &Server[T]{Unlimited: "0", resource: wire.MustOf[T](), refused: map[string]error{}, tokens: map[string]string{}}
	s.api = must(apiserver.New(apiserver.Options{AnyNamespace: true, NoBookmarks: true, GoneAsStatus: true, Seed: 1}))
	s.source = s.Source(Protobuf).(*source[T])
	s.Load(version)
	for _, k := range keys {
		s.Set(k)
	}
	s.Compact()
	return s
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// Pods makes a server of pods, the first at version 101.
func Pods(keys ...string) *Server[*corev1.Pod] { return New[*corev1.Pod](100, keys...) }

// Client returns a client of the server.
func (s *Server[T]) Client() *wire.API[T] { return s.connect(Protobuf) }

func (s *Server[T]) connect(via Via) *wire.API[T] {
	c := must(wire.NewWithTransport(&url.URL{Scheme: "http", Host: "simtest"}, &transport{s.api, via}, wire.Options{}))
	return wire.For(c, s.resource)
}

// Source returns a source of the server's objects.
func (s *Server[T]) Source(via Via) reflector.Source[T] {
	return &source[T]{s, must(stream.NewSource(s.connect(via), object.Selection{}, stream.Options{}))}
}

// Set creates or updates an object and returns its new state. The UID of an object that is
// created at version 101 is "u101".
func (s *Server[T]) Set(key string, edits ...func(T)) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, kind := object.RawKey(key), object.Updated
	obj, ok := s.find(k)
	if !ok {
		kind = object.Added
		obj = reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		obj.SetNamespace(k.Namespace)
		obj.SetName(k.Name)
		obj.SetUID(object.UID(fmt.Sprint("u", s.api.Version()+1)))
	}
	for _, edit := range edits {
		edit(obj)
	}
	must(s.api.Import(s.resource.GVR(), 0, []runtime.Object{obj}))
	obj, _ = s.find(k)
	s.history = append(s.history, object.Event[T]{Kind: kind, Item: ItemOf(obj)})
	return obj
}

// find returns a copy of an object.
func (s *Server[T]) find(key object.Key) (v T, ok bool) {
	obj, err := s.api.Get(s.resource.GVR(), key)
	if err != nil {
		return v, false
	}
	return clone(obj.(T)), true
}

// Delete removes an object, whatever its finalizers, and returns its last state with the
// version of the deletion.
func (s *Server[T]) Delete(key string) T { return s.DeleteTogether(1, key) }

// DeleteTogether removes objects at one version, as the end of an etcd lease does. Open
// watches receive only the first few deletions. It returns the last state of the first.
func (s *Server[T]) DeleteTogether(sent int, keys ...string) (first T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var removed []object.Key
	version := object.Version(strconv.FormatUint(s.api.Version()+1, 10))
	for i, key := range keys {
		k := object.RawKey(key)
		last, _ := s.find(k)
		last.SetResourceVersion(string(version))
		s.history = append(s.history, object.Event[T]{Kind: object.Deleted, Item: ItemOf(last)})
		if removed = append(removed, k); i == 0 {
			first = last
		}
		if i >= sent {
			for _, st := range s.streams {
				st.unsent = append(st.unsent, last)
			}
		}
	}
	must(s.api.Import(s.resource.GVR(), 0, nil, removed...))
	return first
}

// Load makes these objects the state at a version, as a restore from a backup does. It
// forgets the history and cuts all watches.
func (s *Server[T]) Load(version int, objs ...T) {
	s.Cut(io.ErrUnexpectedEOF)
	var all []runtime.Object
	for _, obj := range objs {
		all = append(all, obj)
	}
	if err := s.api.Restore(s.resource.GVR(), uint64(version), all...); err != nil {
		panic(err)
	}
	s.Do(func() { s.history = nil })
}

// Get returns an object, or nil if there is none.
func (s *Server[T]) Get(key string) T {
	v, _ := s.find(object.RawKey(key))
	return v
}

// Objects returns all objects in the order of their keys.
func (s *Server[T]) Objects() (v []T) {
	for _, obj := range must(s.api.Objects(s.resource.GVR())) {
		v = append(v, clone(obj.(T)))
	}
	return v
}

// History returns the changes by the test since the last compaction.
func (s *Server[T]) History() (v []object.Event[T]) {
	s.Do(func() { v = slices.Clone(s.history) })
	return v
}

// Version returns the newest version.
func (s *Server[T]) Version() object.Version {
	return object.Version(strconv.FormatUint(s.api.Version(), 10))
}

// SetVersion makes a version the newest one, as changes of other resources do.
func (s *Server[T]) SetVersion(version int) {
	must(s.api.Import(s.resource.GVR(), uint64(version), nil))
}

// Do runs f with the server's lock held, so that a hook which the server calls later sees
// what f wrote.
func (s *Server[T]) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Bookmark increments the version, sends it to all watches as a bookmark and returns it.
func (s *Server[T]) Bookmark() object.Version {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	must(s.api.Import(s.resource.GVR(), 0, nil))
	for _, st := range s.streams {
		s.deliver(st, object.Event[T]{Bookmark: true, Item: object.Item[T]{Version: s.Version()}})
	}
	return s.Version()
}

// Compact forgets the history: watches from before the present version get 410.
func (s *Server[T]) Compact() {
	s.settle()
	s.api.Compact(0)
	s.Do(func() { s.history = nil })
}

// Expire compacts the history and cuts all watches, at a new version, so that every reader
// has to list.
func (s *Server[T]) Expire() {
	s.settle()
	must(s.api.Import(s.resource.GVR(), 0, nil))
	s.Compact()
	s.Cut(io.EOF)
}

// Cut ends all watches with an error, io.EOF for the regular end. Each first delivers what
// it was sent.
func (s *Server[T]) Cut(err error) {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.muted = true
		st.Fail(err)
	}
	s.streams = nil
}

// Mute leaves the open watches open and sends them nothing more.
func (s *Server[T]) Mute() {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.muted = true
	}
}

// Hold holds the events of all watches back, or sends those that were held back.
func (s *Server[T]) Hold(on bool) {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
	for _, st := range s.streams {
		if held := st.backlog; !on {
			st.backlog = nil
			st.Send(held...)
		}
	}
}

// settle lets open watches receive what was sent.
func (s *Server[T]) settle() {
	if time.Now().Year() == 2000 { // in a bubble
		synctest.Wait()
	}
}

// Refuse answers lists of a namespace, or of everything for "", with an error. A nil error
// ends that.
func (s *Server[T]) Refuse(namespace string, err error) { s.Do(func() { s.refused[namespace] = err }) }

// Stream returns the watch that was opened last.
func (s *Server[T]) Stream() *Stream[T] {
	s.settle()
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

func clone[T runtime.Object](obj T) T { return obj.DeepCopyObject().(T) }

// KeyOf returns the key of an object.
func KeyOf(obj metav1.Object) object.Key {
	return object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// ItemOf returns the item of an object.
func ItemOf[T Object](obj T) object.Item[T] {
	return object.Item[T]{Key: KeyOf(obj), UID: obj.GetUID(), Version: object.Version(obj.GetResourceVersion()), Value: object.Decoded(obj)}
}
