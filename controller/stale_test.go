package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// stale is a reconcile that always reads a stale cache.
func stale(starts *[]time.Duration) controller.Func[string] {
	begin := time.Now()
	return func(context.Context, string) (result, error) {
		*starts = append(*starts, time.Since(begin))
		return result{}, controller.ErrStaleCache
	}
}

func TestR03_AStaleCacheIsRetriedFrom5msUpTo1s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		c, keys := one(t, stale(&starts), controller.Options[string]{})
		start(t, c)
		keys <- "k"
		simtest.Advance(time.Minute)
		ms := time.Millisecond
		simtest.Want(t, "first tries", starts[:4], []time.Duration{0, 5 * ms, 15 * ms, 35 * ms})
		simtest.Want(t, "the last pause", starts[len(starts)-1]-starts[len(starts)-2], time.Second)
		if n := len(starts); n > 70 {
			t.Errorf("%d reconciles in a minute", n)
		}
	})
}

func TestR03_AHeldKeyIsVisibleAndWarnedOfAfter30sThenRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var starts []time.Duration
		c, keys := one(t, stale(&starts), controller.Options[string]{Logger: logTo(&log)})
		stop := start(t, c)
		begin := time.Now()
		keys <- "k"
		simtest.Advance(29 * time.Second)
		simtest.Want(t, "warnings after 29 s", strings.Count(log.String(), "level=WARN"), 0)
		held := c.Status().HeldKeys
		if len(held) != 1 || held[0].Key != any("k") || !held[0].Since.Equal(begin) || held[0].Retries < 10 || !errors.Is(held[0].Err, controller.ErrStaleCache) {
			t.Errorf("held: %+v", held)
		}
		if !strings.Contains(c.Status().String(), "k: held back for 29s") {
			t.Error(c.Status())
		}
		simtest.Advance(3 * time.Second)
		simtest.Want(t, "warnings after 32 s", strings.Count(log.String(), "level=WARN"), 1)
		simtest.Advance(time.Hour)
		if n := strings.Count(log.String(), "level=WARN"); n < 3 || n > 10 {
			t.Errorf("%d warnings in an hour", n)
		}
		_ = stop()
	})
}

func TestR03_AReconcileWithoutAStaleCacheEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		c, keys := one(t, func(context.Context, string) (result, error) {
			starts = append(starts, time.Since(begin))
			if len(starts)%3 != 0 {
				return result{}, controller.ErrStaleCache
			}
			return result{}, nil
		}, controller.Options[string]{})
		start(t, c)
		for range 2 {
			begin, starts = time.Now(), nil
			keys <- "k"
			simtest.Advance(time.Minute)
			simtest.Want(t, "tries", starts, []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond})
			simtest.Want(t, "held", len(c.Status().HeldKeys), 0)
		}
	})
}

// After a deletion the cache has no object, and may still receive an older state of it. The key that deleted it is
// then held, however many reconciles it had in between.
// An older state may also come after the check before a reconcile.
func TestR01_AnObjectThatAnEarlierReconcileDeletedIsNotListedWhenItAppearsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		inf := newInformer("pods", srv)
		pods := controller.Track(inf)
		reconciles, appeared := 0, make(chan struct{})
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			if reconciles++; reconciles == 1 {
				return result{}, pods.Delete(ctx, object.RawKey("shop/a"), func(context.Context) (object.Deletion, error) {
					return object.Deletion{UID: "u101"}, nil // the mirror has not shown it yet
				})
			}
			if reconciles == 2 {
				<-appeared
			}
			snap, err := pods.Snapshot(ctx)
			if err != nil {
				return result{}, err
			}
			defer snap.Release()
			simtest.Want(t, "objects", snap.Len(), 0)
			return result{}, nil
		}, controller.Options[string]{})
		start(t, c, inf)
		synctest.Wait()
		for range 2 {
			keys <- "k"
			synctest.Wait()
		}
		srv.Set("shop/a") // its UID is u101
		synctest.Wait()
		close(appeared)
		synctest.Wait()
		simtest.Want(t, "held", len(c.Status().HeldKeys), 1)
		srv.Delete("shop/a")
		simtest.Advance(time.Minute)
		simtest.Want(t, "held", len(c.Status().HeldKeys), 0)
	})
}

func TestR01_AKeyIsHeldWhenAnObjectThatItDeletedAppearsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		inf := newInformer("pods", srv)
		pods := controller.Track(inf)
		var saw []int
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			snap, err := pods.Snapshot(ctx)
			if err != nil {
				return result{}, err
			}
			defer snap.Release()
			if saw = append(saw, snap.Len()); len(saw) == 1 {
				err = pods.Delete(ctx, object.RawKey("shop/a"), func(context.Context) (object.Deletion, error) {
					return object.Deletion{UID: "u101"}, nil // the mirror has not shown it yet
				})
			}
			return result{}, err
		}, controller.Options[string]{})
		start(t, c, inf)
		synctest.Wait()
		for range 2 {
			keys <- "k"
			synctest.Wait()
		}
		srv.Set("shop/a") // its UID is u101
		synctest.Wait()
		keys <- "k"
		synctest.Wait()
		simtest.Want(t, "objects in each reconcile", saw, []int{0, 0})
		simtest.Want(t, "held", len(c.Status().HeldKeys), 1)
		srv.Delete("shop/a")
		simtest.Advance(time.Minute)
		simtest.Want(t, "objects in each reconcile", saw, []int{0, 0, 0})
		simtest.Want(t, "held", len(c.Status().HeldKeys), 0)
	})
}
