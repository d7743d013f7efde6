package chaos

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// adapter is the form for programs that are written for client-go. There is no way to tell
// it to back off for less than client-go would, so it is slow to come back.
type adapter struct {
	cache.SharedIndexInformer
	list   lister
	view   *view[*corev1.ConfigMap]
	failed atomic.Int64 // lists and watches
}

func newAdapter(client *wire.Client, list lister) (*adapter, error) {
	lw, err := clientgo.NewListWatch(client, wire.MustOf[*corev1.ConfigMap](), clientgo.ListWatchOptions{})
	if err != nil {
		return nil, err
	}
	a := &adapter{
		SharedIndexInformer: clientgo.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{}),
		list:                list, view: newView[*corev1.ConfigMap]("handler"),
	}
	a.view.clientGo = true
	if err := a.SetWatchErrorHandler(func(*cache.Reflector, error) { a.failed.Add(1) }); err != nil {
		return nil, err
	}
	_, err = a.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.view.take(store.Added, false, nil, obj.(*corev1.ConfigMap)) },
		UpdateFunc: func(old, now any) {
			a.view.take(store.Updated, false, old.(*corev1.ConfigMap), now.(*corev1.ConfigMap))
		},
		DeleteFunc: func(obj any) {
			gone, unknown := obj.(cache.DeletedFinalStateUnknown)
			if unknown {
				obj = gone.Obj
			}
			a.view.take(store.Deleted, unknown, nil, obj.(*corev1.ConfigMap))
		},
	})
	return a, err
}

func (a *adapter) title() string    { return a.resource() + ", client-go's shared informer" }
func (a *adapter) resource() string { return configMaps.String() }
func (a *adapter) slow() bool       { return true }
func (a *adapter) look()            {}

func (a *adapter) run(ctx context.Context) error {
	a.RunWithContext(ctx)
	return nil
}

func (a *adapter) reaches(context.Context, object.Key, object.Version) error { return nil }

func (a *adapter) moment(context.Context) (bool, error) { return false, nil }

func (a *adapter) fresh(ctx context.Context) (contents, error) {
	return a.list(ctx, metav1.ListOptions{})
}

func (a *adapter) equals(want contents) error {
	var held []*corev1.ConfigMap
	for _, obj := range a.GetStore().List() {
		held = append(held, obj.(*corev1.ConfigMap))
	}
	for name, all := range map[string][]*corev1.ConfigMap{"the store": held, "the view of the handler": a.view.state()} {
		got, err := encoded(each(all), marshal[*corev1.ConfigMap])
		if err != nil {
			return err
		}
		if err := difference(got, want); err != nil {
			return fmt.Errorf("%s: %s: %w", a.title(), name, err)
		}
	}
	return nil
}

func (a *adapter) wrong() []string {
	_, wrong := a.view.found()
	all := make([]string, len(wrong))
	for i, w := range wrong {
		all[i] = a.title() + ": " + w
	}
	return all
}

func (a *adapter) figures() figures {
	n, _ := a.view.found()
	return figures{form: a.title(), objects: len(a.GetStore().ListKeys()), told: n, failed: a.failed.Load()}
}
