package clientgo

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// NewLazyListWatch returns a ListerWatcher that is found when it is first needed, as that
// of a resource about which the server has to be asked. An error of find is that of the
// request, and find is called again by the next one; what it found is kept. Our informers
// see through it as they do through what find returns.
func NewLazyListWatch(find func(ctx context.Context) (cache.ListerWatcher, error)) cache.ListerWatcher {
	return &lazyListWatch{find: find}
}

type lazyListWatch struct {
	find func(ctx context.Context) (cache.ListerWatcher, error)

	mu    sync.Mutex          // guards found; it is not held while asking
	found cache.ListerWatcher // nil until it is known
}

// get returns what find returned. Two that come at once may both ask.
func (lw *lazyListWatch) get(ctx context.Context) (cache.ListerWatcher, error) {
	lw.mu.Lock()
	found := lw.found
	lw.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := lw.find(ctx)
	if err != nil {
		return nil, err
	}
	lw.mu.Lock()
	defer lw.mu.Unlock()
	if lw.found == nil {
		lw.found = found
	}
	return lw.found, nil
}

func (lw *lazyListWatch) List(opts metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(context.Background(), opts)
}

func (lw *lazyListWatch) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return lw.WatchWithContext(context.Background(), opts)
}

func (lw *lazyListWatch) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	found, err := lw.get(ctx)
	if err != nil {
		return nil, err
	}
	return cache.ToListerWatcherWithContext(found).ListWithContext(ctx, opts)
}

func (lw *lazyListWatch) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	found, err := lw.get(ctx)
	if err != nil {
		return nil, err
	}
	return cache.ToListerWatcherWithContext(found).WatchWithContext(ctx, opts)
}

// records is what our informers and reflectors look for; see recordsOf.
func (lw *lazyListWatch) records() reflector.Source[record] {
	return reflector.SourceFuncs[record]{
		ListFunc: func(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
			found, err := lw.get(ctx)
			if err != nil {
				return object.Page{}, err
			}
			return recordsOf(found, nil).List(ctx, opts, in, sink)
		},
		WatchFunc: func(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
			found, err := lw.get(ctx)
			if err != nil {
				return nil, err
			}
			return recordsOf(found, nil).Watch(ctx, opts, in)
		},
	}
}
