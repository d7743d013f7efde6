package controllerruntime

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/store"
)

var _ cache.Informer = (*view)(nil)

// index is an index function of a view, and the index of each of its parts.
type index struct {
	values toolscache.IndexFunc
	parts  map[*part]*store.Index[tarn.Object, string]
}

func (x *index) of(p *part) *store.Index[tarn.Object, string] { return x.parts[p] }

func labelsOf(obj tarn.Object) labels.Set { return obj.GetLabels() }

// index returns the index of a name, or nil.
func (v *view) index(name string) *index {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.indexes[name]
}

// AddIndexers implements cache.Informer. Index functions are called by several goroutines at once. If one
// panics, the object has no value in that index; tarn.Cluster.Status counts that.
func (v *view) AddIndexers(indexers toolscache.Indexers) error {
	if v.IsStopped() {
		return errors.New("indexer was not added because it has stopped already")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range indexers {
		if v.indexes[name] != nil {
			return fmt.Errorf("indexer conflict: %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(indexers)) {
		x := &index{indexers[name], map[*part]*store.Index[tarn.Object, string]{}}
		for _, p := range v.parts {
			of := store.NewMultiIndex(name, func(obj tarn.Object, add func(string)) error {
				values, err := x.values(obj)
				for _, value := range values {
					add(value)
				}
				return err
			})
			if p.shared != nil {
				of.By(p.owned)
			}
			x.parts[p] = of
			p.mirror.AddIndex(of)
		}
		v.indexes[name] = x
	}
	return nil
}

// HasSynced implements cache.Informer.
func (v *view) HasSynced() bool {
	return !slices.ContainsFunc(v.parts, func(p *part) bool { return !isClosed(p.inf.Synced()) })
}

// HasSyncedChecker implements cache.Informer.
func (v *view) HasSyncedChecker() toolscache.DoneChecker {
	if len(v.parts) == 1 {
		return done{v.name(), v.parts[0].inf.Synced()}
	}
	v.checked.Do(func() {
		v.synced = make(chan struct{})
		go v.awaitSync()
	})
	return done{v.name(), v.synced}
}

// awaitSync closes synced. It ends when the cache has stopped.
func (v *view) awaitSync() {
	defer close(v.synced)
	for _, p := range v.parts {
		select {
		case <-p.inf.Synced():
		case <-p.inf.Stopped():
			return
		}
	}
}

func (v *view) name() string {
	var names []string
	for _, p := range v.parts {
		names = append(names, p.mirror.Name())
	}
	return strings.Join(names, ", ")
}

// done is a toolscache.DoneChecker.
type done struct {
	name string
	done <-chan struct{}
}

// Name implements toolscache.DoneChecker.
func (d done) Name() string { return d.name }

// Done implements toolscache.DoneChecker.
func (d done) Done() <-chan struct{} { return d.done }

// IsStopped implements cache.Informer.
func (v *view) IsStopped() bool {
	return v.closed.Load() || slices.ContainsFunc(v.parts, func(p *part) bool { return isClosed(p.inf.Stopped()) })
}

// registration is a handler on the parts of a view.
type registration struct {
	view    *view
	name    string
	handler toolscache.ResourceEventHandler
	subs    []*informer.Subscription
	missing atomic.Int32 // parts for whose initial state the handler has not been called
	synced  chan struct{}
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return isClosed(r.synced) }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return done{r.name, r.synced} }

// AddEventHandler implements cache.Informer.
func (v *view) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (v *view) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions implements cache.Informer. A handler that panics loses that event, and the panic is
// logged.
func (v *view) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	log := v.cache.log
	if options.Logger != nil {
		log = *options.Logger
	}
	r := &registration{view: v, name: fmt.Sprintf("%s + event handler %T", v.name(), handler), handler: handler, synced: make(chan struct{})}
	r.missing.Store(int32(len(v.parts)))
	for _, p := range v.parts {
		period := time.Duration(float64(p.resync) * (rand.Float64()/5 + 0.9)) // so that handlers take turns
		if options.ResyncPeriod != nil {
			period = *options.ResyncPeriod
		}
		if period <= 0 {
			period = -1
		}
		sub, err := p.mirror.Subscribe(r.calls(p), tarn.SubOptions[tarn.Object]{
			Name: r.name, Resync: period, Reading: p.shared,
			OnSynced: func() {
				if r.missing.Add(-1) == 0 {
					close(r.synced)
				}
			},
			OnPanic: func(e *informer.PanicError) {
				log.Error(e, "Observed a panic in an event handler", "handler", r.name, "object", e.Key.String(), "stacktrace", string(e.Stack))
			},
		})
		if err != nil {
			r.remove()
			return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already: %w", handler, err)
		}
		r.subs = append(r.subs, sub)
	}
	return r, nil
}

// calls returns what calls the handler for a part. An object that is not of the view's type is left out.
func (r *registration) calls(p *part) tarn.Handler[tarn.Object] {
	readable := func(obj tarn.Object) bool {
		if obj == nil {
			r.view.cache.log.Error(p.undecodable(), "A handler is not called for an object", "handler", r.name)
		}
		return obj != nil
	}
	return tarn.Handler[tarn.Object]{
		OnAdd: func(obj tarn.Object, initial bool) {
			if readable(obj) {
				r.handler.OnAdd(obj, initial)
			}
		},
		OnUpdate: func(old, new tarn.Object) {
			switch {
			case !readable(new):
			case old == nil:
				r.handler.OnAdd(new, false)
			default:
				r.handler.OnUpdate(old, new)
			}
		},
		OnDelete: func(obj tarn.Object, unknown bool) {
			switch {
			case !readable(obj):
			case unknown:
				r.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: keyText(obj), Obj: obj})
			default:
				r.handler.OnDelete(obj)
			}
		},
	}
}

func keyText(obj tarn.Object) string {
	return tarn.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}.String()
}

func (r *registration) remove() {
	for _, sub := range r.subs {
		sub.Remove()
	}
}

// RemoveEventHandler implements cache.Informer.
func (v *view) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return errors.New("the registration is not one of this cache")
	}
	if r.view == v {
		r.remove()
	}
	return nil
}
