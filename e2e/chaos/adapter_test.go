package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// adapter is the form for programs that are written for client-go. It backs off for as long
// as client-go, so it is slow to recover. It cannot notice a rewind if the server has passed
// the versions that it knew before it lists again; no client can. So it is recreated with
// each rewind, like a program that is restarted.
type adapter struct {
	make   func() (*adapted, error)
	list   lister
	failed atomic.Int64 // lists and watches

	mu     sync.Mutex // guards what follows
	now    *adapted
	before []*adapted
}

// adapted is one life of an adapter.
type adapted struct {
	cache.SharedIndexInformer
	view  *view[*corev1.ConfigMap]
	ended chan struct{} // closed when it is to end
}

func newAdapter(client *wire.Client, list lister) (*adapter, error) {
	lw, err := clientgo.NewListWatch(client, wire.MustOf[*corev1.ConfigMap](), clientgo.ListWatchOptions{})
	if err != nil {
		return nil, err
	}
	a := &adapter{list: list}
	a.make = func() (*adapted, error) {
		v := newView[*corev1.ConfigMap]("handler", new(atomic.Int64))
		v.clientGo = true
		inf := clientgo.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{})
		if err := inf.SetWatchErrorHandler(func(*cache.Reflector, error) { a.failed.Add(1) }); err != nil {
			return nil, err
		}
		_, err := inf.AddEventHandler(handlerOf(v))
		return &adapted{inf, v, make(chan struct{})}, err
	}
	a.now, err = a.make()
	return a, err
}

func handlerOf(v *view[*corev1.ConfigMap]) cache.ResourceEventHandler {
	type event = change[*corev1.ConfigMap]
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { v.take(event{kind: object.Added, now: obj.(*corev1.ConfigMap)}) },
		UpdateFunc: func(old, now any) {
			v.take(event{kind: object.Updated, old: old.(*corev1.ConfigMap), now: now.(*corev1.ConfigMap)})
		},
		DeleteFunc: func(obj any) {
			tombstone, unknown := obj.(cache.DeletedFinalStateUnknown)
			if unknown {
				obj = tombstone.Obj
			}
			v.take(event{kind: object.Deleted, unknown: unknown, now: obj.(*corev1.ConfigMap)})
		},
	}
}

func (a *adapter) title() string    { return a.resource() + ", client-go's shared informer" }
func (a *adapter) resource() string { return configMaps.String() }
func (a *adapter) slow() bool       { return true }
func (a *adapter) look()            {}

// run runs one life after the other.
func (a *adapter) run(ctx context.Context) error {
	for ctx.Err() == nil {
		life := a.life()
		living, end := context.WithCancel(ctx)
		var over sync.WaitGroup
		over.Go(func() {
			defer end()
			select {
			case <-life.ended:
			case <-ctx.Done():
			}
		})
		life.RunWithContext(living)
		over.Wait()
	}
	return nil
}

func (a *adapter) life() *adapted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

func (a *adapter) unaware(int64) (sources, watching int) { return 0, 0 }

func (a *adapter) renew() error {
	next, err := a.make()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.now.ended)
	a.before = append(a.before, a.now)
	a.now = next
	return nil
}

func (a *adapter) reaches(context.Context, object.Key, object.Version) error { return nil }

func (a *adapter) moment(context.Context) (bool, error) { return false, nil }

func (a *adapter) fresh(ctx context.Context) (contents, error) {
	return a.list(ctx, object.Everything, metav1.ListOptions{})
}

func (a *adapter) holds(want contents) error {
	var held []*corev1.ConfigMap
	for _, obj := range a.life().GetStore().List() {
		held = append(held, obj.(*corev1.ConfigMap))
	}
	return a.compare("the store", held, want)
}

func (a *adapter) equals(want contents) error {
	if err := a.holds(want); err != nil {
		return err
	}
	return a.compare("the view of the handler", a.life().view.state(), want)
}

func (a *adapter) compare(name string, all []*corev1.ConfigMap, want contents) error {
	got, err := encoded(each(all), marshal[*corev1.ConfigMap])
	if err != nil {
		return err
	}
	if err := difference(got, want); err != nil {
		return fmt.Errorf("%s: %s: %w", a.title(), name, err)
	}
	return nil
}

// found returns how many changes all lives have delivered, and what was wrong with them.
func (a *adapter) found() (delivered int, wrong []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, life := range append([]*adapted{a.now}, a.before...) {
		n, some := life.view.found()
		delivered += n
		for _, w := range some {
			wrong = append(wrong, a.title()+": "+w)
		}
	}
	return delivered, wrong
}

func (a *adapter) wrong() []string {
	_, wrong := a.found()
	return wrong
}

func (a *adapter) figures() figures {
	delivered, _ := a.found()
	return figures{form: a.title(), objects: len(a.life().GetStore().ListKeys()), delivered: delivered, failed: a.failed.Load()}
}
