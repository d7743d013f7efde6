package fleet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/factory/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unstreamed is a ListerWatcher of a client that knows no streaming lists, as fakes do.
type unstreamed struct{ *cache.ListWatch }

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// Between the list and the watch a fake client loses what happens, so waiting for the caches waits
// for the first answer to a watch; for one that is refused too, which client-go does not wait for.
func TestWaitForSyncWaitsUntilTheFirstWatchIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		theirs bool
	}{
		"a watch":              {},
		"a watch is refused":   {err: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no watch"))},
		"client-go's informer": {theirs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answered := make(chan struct{}, 100)
				lw := unstreamed{&cache.ListWatch{
					//lint:ignore SA1019 a fake without contexts
					ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
						return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
					},
					//lint:ignore SA1019 a fake without contexts
					WatchFunc: func(metav1.ListOptions) (watch.Interface, error) {
						<-time.After(time.Second)
						answered <- struct{}{}
						return watch.NewFake(), c.err
					},
				}}
				var f fleet.Fleet[string]
				f.Get("pods", func() cache.SharedIndexInformer {
					if c.theirs {
						return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
					}
					return clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
				})
				ctx, cancel := context.WithCancel(t.Context())
				f.Start(ctx)
				if synced := f.WaitForSync(ctx); !synced["pods"] {
					t.Errorf("synced: %v", synced)
				}
				if len(answered) == 0 && !c.theirs {
					t.Error("no watch has been answered")
				}
				cancel()
				f.Shutdown()
			})
		})
	}
}
