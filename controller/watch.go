package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// Cache is an informer, or a reference to one such as a tarn.Mirror.
type Cache[T any] interface {
	// Informer returns the informer.
	Informer() *informer.Informer[T]
}

// For is a source of the keys of a cache's objects, initially and whenever an object changes or
// is deleted. An object that left the cache's shard adds no key.
func For[T any](objects Cache[T], when ...Predicate[T]) Source[object.Key] {
	inf := objects.Informer()
	s := watch(inf, when, func(e *informer.Event[T], old bool, add func(object.Key)) {
		if !old {
			add(e.Key)
		}
	})
	s.Pending, s.Len = inf.Writes().Pending, inf.Len
	return s
}

// Watches is a source of keys derived from the objects of a cache: the function calls add for
// each key. After an update it is called with the old and with the new object. It should be
// fast. A panic is reported, and the keys of that object in that state are lost.
func Watches[T any, K comparable](objects Cache[T], keys func(obj T, add func(K)), when ...Predicate[T]) Source[K] {
	return watch(objects.Informer(), when, func(e *informer.Event[T], old bool, add func(K)) {
		if old {
			keys(e.Old(), add)
		} else {
			keys(e.New(), add)
		}
	})
}

// Owners is the cache of the objects that own others: an informer with Options.Resource, or a
// tarn.Mirror.
type Owners interface {
	// Resource is the resource of the owners.
	Resource() object.Resource
	// UIDOf returns the UID of the owner with the given key.
	UIDOf(key object.Key) (uid object.UID, ok bool)
	// WaitSynced blocks until the cache is synced.
	WaitSynced(ctx context.Context) error
}

// Owns is a source of the owners of a cache's objects: the key of each owner reference to an
// object of the owners' resource. It ignores references to a deleted object of the same name
// and another UID.
func Owns[C metav1.Object](children Cache[C], owners Owners, when ...Predicate[C]) Source[object.Key] {
	resource, inf := owners.Resource(), children.Informer()
	s := Watches(children, func(child C, add func(object.Key)) {
		for _, ref := range child.GetOwnerReferences() {
			if ref.Kind != resource.Kind || groupOf(ref.APIVersion) != resource.Group {
				continue
			}
			key := object.Key{Name: ref.Name}
			if resource.Namespaced {
				key.Namespace = child.GetNamespace()
			}
			if uid, ok := owners.UIDOf(key); ok && uid != ref.UID {
				continue
			}
			add(key)
		}
	}, when...)
	s.Ready = func(ctx context.Context) error {
		if resource.Kind == "" {
			return errors.New("the owners' informer has no resource; set informer.Options.Resource")
		}
		return errors.Join(inf.WaitSynced(ctx), owners.WaitSynced(ctx))
	}
	s.NotReady = func() error { return errors.Join(notReady(inf.WaitSynced), notReady(owners.WaitSynced)) }
	return s
}

// groupOf returns the group of an apiVersion, which is empty for "v1".
func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// watch is a source that subscribes to an informer. keys adds the keys of the event's new or old object.
func watch[T any, K comparable](inf *informer.Informer[T], when []Predicate[T], keys func(e *informer.Event[T], old bool, add func(K))) Source[K] {
	// subscribe passes on the state and its changes until the context is done or, if only the
	// state is wanted, until that has been passed on.
	subscribe := func(ctx context.Context, in *Intake[K], name string, stateOnly bool) error {
		w := &watcher[T, K]{in: in, when: when, keys: keys}
		w.add = func(key K) { *w.into = append(*w.into, key) }
		sub, err := inf.SubscribeBatch(w.receive, informer.SubOptions[T]{Name: name})
		if err != nil {
			return err
		}
		var synced <-chan struct{}
		if stateOnly {
			synced = sub.Synced()
		}
		stopped := false
		select {
		case <-ctx.Done():
		case <-synced:
		case <-sub.Done():
			stopped = true
		}
		sub.Remove()
		<-sub.Done()
		if stopped && ctx.Err() == nil {
			return fmt.Errorf("informer %s: %w", inf.Name(), informer.ErrStopped)
		}
		return nil
	}
	return Source[K]{
		Name:     inf.Name(),
		Ready:    inf.WaitSynced,
		NotReady: func() error { return notReady(inf.WaitSynced) },
		Run: func(ctx context.Context, in *Intake[K]) error {
			return subscribe(ctx, in, "controller "+in.Controller(), false)
		},
		Replay: func(ctx context.Context, in *Intake[K]) error {
			return subscribe(ctx, in, "replay for controller "+in.Controller(), true)
		},
	}
}

// watcher maps events to keys. One goroutine at a time calls it.
type watcher[T any, K comparable] struct {
	in   *Intake[K]
	when []Predicate[T]
	keys func(e *informer.Event[T], old bool, add func(K))
	add  func(K)

	stage                  stage // of the current event
	into                   *[]K
	live, initial, deleted []K
}

// stage is how far an event has come. After a panic the next stage follows, so that an object whose old
// state made a function panic is reconciled when it is corrected, and an event whose predicate
// panicked counts as selected.
type stage uint8

const (
	selecting stage = iota
	mappingOld
	mappingNew
	mapped
)

func (w *watcher[T, K]) receive(_ context.Context, events []informer.Event[T]) {
	for len(events) > 0 {
		n := 0
		// One guard covers all events up to a panic.
		if !w.in.guard(func() {
			for n < len(events) {
				w.one(&events[n])
				n, w.stage = n+1, selecting
			}
		}, func() string { return ": " + events[n].Key.String() }) {
			if w.stage++; w.stage == mapped {
				n, w.stage = n+1, selecting
			}
		}
		events = events[n:]
	}
	// Added together, so that the queue is locked once.
	w.in.Add(w.live...)
	w.in.AddInitial(w.initial...)
	w.in.AddDeleted(w.deleted...)
	for _, keys := range []*[]K{&w.live, &w.initial, &w.deleted} {
		clear(*keys)
		*keys = (*keys)[:0]
	}
}

func (w *watcher[T, K]) one(e *informer.Event[T]) {
	if e.Kind == object.Left {
		return // another process has it now; a reconcile would take it for deleted
	}
	if w.stage == selecting {
		for _, p := range w.when {
			if !p(*e) {
				return
			}
		}
		w.stage = mappingOld
	}
	switch {
	case e.Initial || e.Kind == object.Synced:
		w.into = &w.initial
	case e.Kind == object.Deleted:
		w.into = &w.deleted
	default:
		w.into = &w.live
	}
	if w.stage == mappingOld {
		if e.Kind == object.Updated {
			w.keys(e, true, w.add)
		}
		w.stage = mappingNew
	}
	w.keys(e, false, w.add)
}
