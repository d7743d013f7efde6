package workqueue_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/workqueue"
)

type limiter = workqueue.Limiter[string]

func whens(l limiter, item string, n int) (out []time.Duration) {
	for range n {
		out = append(out, l.When(item))
	}
	return out
}

const ms = time.Millisecond

func TestK04_Exponential(t *testing.T) {
	l := workqueue.NewExponential[string](ms, 10*ms)
	want(t, "delays", whens(l, "a", 6), []time.Duration{ms, 2 * ms, 4 * ms, 8 * ms, 10 * ms, 10 * ms})
	want(t, "of another", whens(l, "b", 1), []time.Duration{ms})
	want(t, "requeues", l.NumRequeues("a"), 6)
	l.Forget("a")
	want(t, "requeues", l.NumRequeues("a"), 0)
	want(t, "after Forget", l.When("a"), ms)
}

func TestK04_NoOverflowGivesANegativeOrZeroDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 / 2}))
		base, limit := time.Duration(any.Draw(t, "base")), time.Duration(any.Draw(t, "limit"))
		exponential := workqueue.NewExponential[string](base, limit)
		for _, l := range []limiter{
			exponential,
			workqueue.NewFastSlow[string](base, limit, 3),
			workqueue.NewCeiling[string](workqueue.NewExponential[string](base, math.MaxInt64), limit),
			workqueue.NewMaxOf[string](workqueue.NewExponential[string](base, limit)),
		} {
			last := time.Duration(0)
			for i, d := range whens(l, "a", 200) {
				if d <= 0 {
					t.Fatalf("%T: delay %d is %v", l, i, d)
				}
				if l == limiter(exponential) && (d < last || d > max(1, limit)) {
					t.Fatalf("delay %d is %v, after %v, up to %v", i, d, last, limit)
				}
				last = d
			}
		}
	})
}

func TestK04_FastSlow(t *testing.T) {
	l := workqueue.NewFastSlow[string](ms, time.Second, 2)
	want(t, "delays", whens(l, "a", 4), []time.Duration{ms, ms, time.Second, time.Second})
	want(t, "requeues", l.NumRequeues("a"), 4)
	l.Forget("a")
	want(t, "after Forget", whens(l, "a", 1), []time.Duration{ms})
}

func TestK04_Bucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.NewBucket[string](rate.NewLimiter(rate.Every(time.Second), 2))
		want(t, "delays", whens(l, "a", 4), []time.Duration{0, 0, time.Second, 2 * time.Second})
		want(t, "requeues", l.NumRequeues("a"), 0)
		l.Forget("a")
		advance(4 * time.Second)
		want(t, "later", whens(l, "b", 2), []time.Duration{0, 0})
		never := workqueue.NewBucket[string](rate.NewLimiter(1, 0))
		want(t, "without tokens", never.When("a"), time.Duration(math.MaxInt64))
	})
}

func TestK04_MaxOfAndCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := workqueue.NewMaxOf(limiter(workqueue.NewBucket[string](rate.NewLimiter(rate.Every(time.Second), 2))),
			workqueue.NewFastSlow[string](ms, time.Minute, 3))
		want(t, "delays", whens(most, "a", 4), []time.Duration{ms, ms, time.Second, time.Minute})
		want(t, "requeues", most.NumRequeues("a"), 4)
		most.Forget("a")
		want(t, "requeues", most.NumRequeues("a"), 0)

		l := workqueue.NewCeiling(limiter(workqueue.NewExponential[string](ms, time.Hour)), 3*ms)
		want(t, "delays", whens(l, "a", 3), []time.Duration{ms, 2 * ms, 3 * ms})
		want(t, "requeues", l.NumRequeues("a"), 3)
		l.Forget("a")
		want(t, "requeues", l.NumRequeues("a"), 0)
	})
}

func TestK04_TheDefaultIsBothPerItemAndOverall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := workqueue.DefaultLimiter[int]()
		for i := range 100 {
			want(t, "first of its item", l.When(i), 5*ms)
		}
		want(t, "the bucket's", l.When(100), 100*ms)
		want(t, "the bucket's", l.When(101), 200*ms)
		for range 60 {
			l.When(7)
		}
		want(t, "at most", l.When(7), 1000*time.Second)
	})
}

func TestAddRateLimitedAndForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{Limiter: workqueue.NewExponential[string](time.Second, time.Hour)})
		for i, d := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			q.AddRateLimited("a")
			want(t, "requeues", q.NumRequeues("a"), i+1)
			advance(d - 1)
			want(t, "early", q.Len(), 0)
			advance(1)
			want(t, "taken", getAll(t, q), []string{"a"})
		}
		q.Forget("a")
		want(t, "requeues", q.NumRequeues("a"), 0)
	})
}

// A failure of a delayed item is counted, but takes a token only if it leads to an earlier retry.
func TestADelayedItemTakesNoTokenThatItDoesNotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := rate.NewLimiter(rate.Every(time.Hour), 10)
		q := workqueue.New(options{Limiter: workqueue.NewMaxOf(
			limiter(workqueue.NewBucket[string](bucket)), workqueue.NewExponential[string](time.Second, time.Hour))})
		for range 3 {
			q.AddRateLimited("a")
		}
		want(t, "tokens", int(bucket.Tokens()+.5), 9)
		want(t, "failures", q.NumRequeues("a"), 3)
		want(t, "due", q.Inspect("a")[0].Due, time.Now().Add(time.Second))

		// An item with a long delay is retried earlier when it fails.
		q.AddAfter("b", time.Minute)
		q.AddRateLimited("b")
		want(t, "tokens", int(bucket.Tokens()+.5), 8)
		want(t, "due", q.Inspect("b")[0].Due, time.Now().Add(time.Second))
		q.ShutDown()
	})
}

// foreign is a limiter of another package.
type foreign struct{ whens int }

func (f *foreign) When(string) time.Duration { f.whens++; return time.Second }
func (f *foreign) Forget(string)             {}
func (f *foreign) NumRequeues(string) int    { return f.whens }

func TestSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := rate.NewLimiter(rate.Every(time.Second), 1)
		empty.Allow()
		for name, l := range map[string]limiter{
			"exponential": workqueue.NewExponential[string](time.Second, time.Hour),
			"fast":        workqueue.NewFastSlow[string](time.Second, time.Hour, 9),
			"bucket":      workqueue.NewBucket[string](empty),
			"max of":      workqueue.NewMaxOf(limiter(&foreign{}), workqueue.NewExponential[string](ms, ms)),
			"ceiling":     workqueue.NewCeiling(limiter(workqueue.NewFastSlow[string](time.Second, time.Second, 9)), time.Hour),
			"low ceiling": workqueue.NewCeiling(limiter(workqueue.NewFastSlow[string](time.Hour, time.Hour, 9)), time.Second),
			"foreign":     workqueue.NewCeiling(limiter(&foreign{}), time.Hour),
		} {
			for _, than := range []time.Duration{0, time.Second} {
				if d, ok := workqueue.Sooner(l, "a", than); ok {
					t.Errorf("%s: %v is sooner than %v", name, d, than)
				}
				l.Forget("a")
			}
			if d, ok := workqueue.Sooner(l, "a", time.Second+1); !ok || d != time.Second {
				t.Errorf("%s: got %v, %v, want a second", name, d, ok)
			}
		}
	})
}
