package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

func TestAPausedControllerStartsNoReconcileAndLosesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		free := make(chan struct{})
		c, keys := one(t, func(_ context.Context, key string) (result, error) {
			d.Add("%s", key)
			if key == "slow" {
				<-free
			}
			return result{}, nil
		}, controller.Options[string]{Workers: 2})
		stop := start(t, c)
		keys <- "slow"
		synctest.Wait()
		c.Pause()
		c.Pause()
		keys <- "a"
		keys <- "b"
		close(free) // the running reconcile finishes
		simtest.Advance(time.Hour)
		s := c.Status()
		simtest.Want(t, "while paused", d.Take(), []string{"slow"})
		simtest.Want(t, "paused, reconciles", fmt.Sprint(s.Paused, s.Reconciles, len(s.Running)), "true 1 0")
		if !strings.Contains(s.String(), "\n  paused") {
			t.Error(s)
		}
		c.Resume()
		c.Resume()
		synctest.Wait()
		simtest.Want(t, "after the pause", len(d.Take()), 2)
		simtest.Want(t, "paused", c.Status().Paused, false)
		c.Pause()
		keys <- "late"
		synctest.Wait()
		simtest.Want(t, "shutdown", stop(), nil)
		simtest.Want(t, "left", c.Status().LeftKeys, []any{"late"})
	})
}

func TestInspectReportsWhereAKeyIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			switch key {
			case "fails":
				controller.Logger(ctx).With("node", "n1").WithGroup("cloud").Info("asked", "zone", "a", slog.Group("vm", "id", 7))
				controller.Logger(ctx).Debug("not kept")
				return result{}, errOops
			case "slow":
				<-free
			case "later":
				return result{RequeueAfter: time.Minute}, nil
			}
			return result{}, nil
		}, controller.Options[string]{Queue: workqueue.Options[string]{Limiter: workqueue.NewExponential[string](time.Minute, time.Hour)}})
		simtest.Want(t, "before Run", c.Inspect("fails").Attempt, 1)
		if err := c.Retry("fails"); err == nil || err.Error() != "controller one: retry fails: the controller does not run" {
			t.Error(err)
		}
		start(t, c)
		begin := time.Now()
		for _, key := range []string{"fails", "later", "slow", "next"} {
			keys <- key
		}
		synctest.Wait()

		s := c.Inspect("fails")
		if !s.Due.Equal(begin.Add(time.Minute)) || !s.Backoff || s.Queued || s.Attempt != 2 || s.Failure == nil || !errors.Is(s.Failure.Err, errOops) || len(s.Recent) != 1 {
			t.Errorf("backing off: %+v", s)
		} else if r := s.Recent[0]; r.Key != "fails" || r.Outcome != controller.OutcomeError || r.Attempt != 1 || !errors.Is(r.Err, errOops) || !r.Start.Equal(begin) {
			t.Errorf("recent: %+v", r)
		} else {
			simtest.Want(t, "log", r.Log, []string{"INFO asked node=n1 cloud.zone=a cloud.vm.id=7"})
		}
		if s := c.Inspect("later"); !s.Due.Equal(begin.Add(time.Minute)) || s.Backoff || s.Failure != nil {
			t.Errorf("later: %+v", s)
		}
		if s := c.Inspect("slow"); s.Running == nil || !s.Running.Since.Equal(begin) || s.Queued {
			t.Errorf("running: %+v", s)
		}
		if s := c.Inspect("next"); s.Running != nil || !s.Queued {
			t.Errorf("queued: %+v", s)
		}
		if s := c.Inspect("unknown"); s.Running != nil || s.Queued || !s.Due.IsZero() || s.Failure != nil || s.Recent != nil {
			t.Errorf("unknown: %+v", s)
		}
		close(free)
		synctest.Wait()
		if err := c.Retry("fails"); err != nil {
			t.Fatal(err)
		}
		simtest.Advance(time.Millisecond)
		if s := c.Inspect("fails"); len(s.Recent) != 2 || s.Recent[0].Attempt != 2 || !s.Backoff || time.Until(s.Due) > time.Minute {
			t.Errorf("not retried, or its back-off has not started over: %+v", s)
		}
		if err := c.Retry("later"); err != nil {
			t.Fatal(err)
		}
		simtest.Advance(time.Second)
		if s := c.Inspect("later"); len(s.Recent) != 2 || s.Due.Sub(begin) < time.Minute {
			t.Errorf("the delay before the retry has stayed: %+v", s)
		}
	})
}

func TestRecentReconcilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			for range 100 {
				controller.Logger(ctx).Info(strings.Repeat("ü", 1000))
			}
			return result{}, nil
		}, controller.Options[string]{Recent: 3})
		start(t, c)
		for range 5 {
			keys <- "k"
			synctest.Wait()
		}
		recent := c.Inspect("k").Recent
		simtest.Want(t, "reconciles, lines", []int{len(recent), len(recent[0].Log)}, []int{3, 20})
		if line := recent[0].Log[0]; len(line) > 510 || !strings.HasSuffix(line, "ü…") {
			t.Errorf("%d bytes: %s", len(line), line)
		}

		c, keys = one(t, func(ctx context.Context, _ string) (result, error) {
			controller.Logger(ctx).Info("hello")
			return result{}, nil
		}, controller.Options[string]{Recent: -1})
		start(t, c)
		keys <- "k"
		synctest.Wait()
		simtest.Want(t, "without", len(c.Inspect("k").Recent), 0)
	})
}

// A pause that begins while workers wait for the rate limit holds for them, too.
func TestAPauseHoldsWhileTheRateLimitDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reconciles atomic.Int32
		keys := make(chan object.Key)
		c := newController(t, func(context.Context, object.Key) (result, error) {
			reconciles.Add(1)
			return result{}, nil
		}, options{Workers: 3, Rate: 0.1, Burst: 1}, controller.Channel("keys", keys))
		start(t, c)
		for _, name := range []string{"a", "b", "c"} {
			keys <- object.Key{Name: name}
		}
		synctest.Wait()
		c.Pause()
		simtest.Advance(time.Hour)
		simtest.Want(t, "reconciles", reconciles.Load(), 1)
		if s := c.Inspect(object.Key{Name: "b"}); !s.Queued {
			t.Errorf("a key that waits for the rate limit is %+v", s)
		}
		c.Resume()
		simtest.Advance(time.Hour)
		simtest.Want(t, "reconciles", reconciles.Load(), 3)
	})
}

func TestFailingKeysBeyondTheLimitAreStillFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fixed atomic.Bool
		for recent, kept := range map[int]bool{0: true, -1: false} {
			fixed.Store(false)
			c, keys := one(t, func(context.Context, string) (result, error) {
				if fixed.Load() {
					return result{}, nil
				}
				return result{}, errOops
			}, controller.Options[string]{Errors: 2, Recent: recent})
			start(t, c)
			for _, key := range []string{"a", "b"} {
				keys <- key
				simtest.Advance(time.Second)
			}
			simtest.Want(t, "more than two", c.Status().MoreFailures, false)
			keys <- "c"
			synctest.Wait()
			s := c.Status()
			simtest.Want(t, "failures, more", fmt.Sprint(len(s.Failures), s.MoreFailures), "2 true")
			for _, key := range []string{"a", "b", "c"} {
				listed := slices.ContainsFunc(s.Failures, func(f controller.Failure) bool { return f.Key == key })
				if k := c.Inspect(key); k.Attempt < 2 || !k.Backoff || (k.Failure != nil) != (listed || kept) {
					t.Errorf("%s: %+v", key, k)
				}
			}
			fixed.Store(true)
			simtest.Advance(time.Hour)
			s = c.Status()
			simtest.Want(t, "failures, more", fmt.Sprint(len(s.Failures), s.MoreFailures), "0 false")
		}
	})
}

func TestFailuresEndWithTheirTermOrTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(context.Context, string) (result, error) { return result{}, errOops }, controller.Options[string]{})
		stop := start(t, c)
		keys <- "a"
		synctest.Wait()
		_ = stop()
		simtest.Want(t, "after Run", len(c.Status().Failures), 1)
		g := newGate()
		start(t, controller.WhileLeading(g, c))
		ended := make(chan struct{})
		g.terms <- func() { close(ended) }
		synctest.Wait()
		simtest.Want(t, "in the next run", len(c.Status().Failures), 0)
		keys <- "b"
		synctest.Wait()
		simtest.Want(t, "failing", len(c.Status().Failures), 1)
		g.loses()
		<-ended
		simtest.Want(t, "after the term", len(c.Status().Failures), 0)
	})
}

// counting counts how often it is formatted.
type counting struct{ n *atomic.Int32 }

func (c counting) LogValue() slog.Value {
	c.n.Add(1)
	return slog.StringValue("hidden")
}

func TestOnlyTheLogLinesThatAreKeptAreFormatted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var formatted atomic.Int32
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			log := controller.Logger(ctx)
			for range 100 {
				log.Info("asked", "token", counting{&formatted})
			}
			simtest.Want(t, "enabled", log.Enabled(ctx, slog.LevelError), false)
			return result{}, nil
		}, controller.Options[string]{})
		start(t, c)
		keys <- "k"
		synctest.Wait()
		simtest.Want(t, "lines formatted", formatted.Load(), 20)
		simtest.Want(t, "line", c.Inspect("k").Recent[0].Log[19], "INFO asked token=hidden")
	})
}

func TestAKeyOfAGroupThatIsNotClaimedCannotBeRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClaiming(t)
		release := c.claim("a")
		c.want(t)
		ok(t, c.Retry(object.Key{Namespace: "a", Name: "1"}))
		simtest.Advance(time.Millisecond)
		c.want(t, "a/1")
		if err := c.Retry(object.Key{Namespace: "b", Name: "1"}); err == nil || err.Error() != "controller web: retry b/1: this process does not reconcile the keys of its group b" {
			t.Error(err)
		}
		ok(t, release())
		if err := c.Retry(object.Key{Namespace: "a", Name: "1"}); err == nil {
			t.Error("a key of a released group was retried")
		}
	})
}

// The last failure of a key stays known, with its log, however many reconciles of others follow.
func TestT01_TheLastFailureOfAKeyOutlastsTheRecentReconcilesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			switch key {
			case "fails":
				controller.Logger(ctx).Info("asked", "zone", "a")
				return result{}, errOops
			case "given up":
				return result{}, controller.Terminal(errOops)
			}
			return result{}, nil
		}, controller.Options[string]{Recent: 4, Errors: 2, Queue: workqueue.Options[string]{Limiter: workqueue.NewExponential[string](time.Hour, time.Hour)}})
		start(t, c)
		begin := time.Now()
		for _, key := range []string{"fails", "given up", "a", "b", "c", "d", "e"} {
			keys <- key
			synctest.Wait()
		}
		s := c.Inspect("fails")
		if len(s.Recent) != 1 || s.Failure == nil {
			t.Fatalf("%+v", s)
		}
		r := s.Recent[0]
		simtest.Want(t, "last reconcile", fmt.Sprintf("%v, attempt %d, %s: %v, %s, %v", r.Key, r.Attempt, r.Outcome, r.Err, r.Log, r.Start.Equal(begin)), fmt.Sprintf("fails, attempt 1, error: %v, [INFO asked zone=a], true", errOops))
		simtest.Want(t, "outcome", c.Inspect("given up").Recent[0].Outcome, controller.OutcomeTerminal)
		simtest.Want(t, "failing", c.Status().Failing, 2)
		simtest.Want(t, "healthy key", len(c.Inspect("a").Recent), 0)

		// While the ring has the failure it is not listed twice.
		if err := c.Retry("fails"); err != nil {
			t.Fatal(err)
		}
		simtest.Advance(time.Millisecond)
		s = c.Inspect("fails")
		simtest.Want(t, "listed, attempt", []int{len(s.Recent), s.Recent[0].Attempt}, []int{1, 2})
		keys <- "third"
		synctest.Wait()
		simtest.Want(t, "failing", c.Status().Failing, 2)
	})
}
