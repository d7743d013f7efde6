package main

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestABucketHoldsItsLeastLatency(t *testing.T) {
	for _, v := range []int64{0, 1, 100, exact - 1, exact, exact + 1, 20_000, 1e6, 270e6, 1e12} {
		b := bucket(v)
		if lo := low(b); lo > v || float64(v-lo) > 0.04*float64(v) {
			t.Errorf("%d ns: bucket %d begins at %d", v, b, lo)
		}
		if next := low(b + 1); next <= v {
			t.Errorf("%d ns: bucket %d begins at %d, after it", v, b+1, next)
		}
	}
}

func TestQuantiles(t *testing.T) {
	h := new(histogram)
	for v := range int64(1000) {
		h.add(v)
	}
	for _, c := range []struct {
		part float64
		want int64
	}{{0.5, 500}, {0.99, 990}, {0.999, 999}} {
		if got := h.quantile(c.part); got != c.want {
			t.Errorf("quantile %v is %d; want %d", c.part, got, c.want)
		}
	}
	if h.longest != 999 {
		t.Errorf("longest is %d", h.longest)
	}
}

func TestAWatcherSeesTheCallThatWaits(t *testing.T) {
	// The reader's call waits for the work, so the work is as long as a call.
	release, waiting := make(chan struct{}), make(chan struct{})
	var wait atomic.Bool
	w := watch(func(int) {
		if wait.CompareAndSwap(true, false) {
			close(waiting)
			<-release
		}
	}, func() {
		wait.Store(true)
		<-waiting
		start := now()
		for now()-start < 2_000_000 {
			runtime.Gosched()
		}
		close(release)
	})
	// Its own share depends on whether the kernel ran the reader during the work.
	if w.longest < 2_000_000 || w.own > w.longest {
		t.Errorf("longest %d ns, own %d ns; the call waited for 2 ms", w.longest, w.own)
	}
	if w.all.count == 0 {
		t.Error("no calls counted")
	}
}
