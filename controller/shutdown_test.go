package controller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func leftOf(t *testing.T, err error) *controller.UnfinishedError[string] {
	t.Helper()
	var left *controller.UnfinishedError[string]
	if !errors.As(err, &left) {
		t.Fatalf("%v; want a UnfinishedError", err)
	}
	return left
}

func TestRunningReconcilesMayFinishWithinTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			<-time.After(20 * time.Second)
			d.Add("%s %v", key, ctx.Err())
			return result{}, nil
		}, controller.Options[string]{})
		stop := start(t, c)
		keys <- "a"
		synctest.Wait()
		begin := time.Now()
		simtest.Want(t, "error", stop(), nil)
		simtest.Want(t, "took", time.Since(begin), 20*time.Second)
		simtest.Want(t, "reconciled", d.Take(), []string{"a <nil>"})
		simtest.Want(t, "state", c.Status().State, controller.Idle)
	})
}

func TestKeysThatAreLeftAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			switch key {
			case "later":
				return result{RequeueAfter: time.Hour}, nil
			case "fails":
				return result{}, errOops
			}
			<-ctx.Done() // and returns
			return result{}, context.Cause(ctx)
		}, controller.Options[string]{Grace: time.Second})
		stop := start(t, c)
		for _, key := range []string{"later", "fails"} {
			keys <- key
			simtest.Advance(time.Hour)
		}
		for _, key := range []string{"runs", "waits", "waits too"} {
			keys <- key
			synctest.Wait()
		}
		simtest.Want(t, "running", c.Status().Running[0].Key, any("runs"))
		failed := c.Status().Failed
		err := stop()
		left := leftOf(t, err)
		slices.Sort(left.Waiting)
		// "later" was complete until its next period.
		simtest.Want(t, "waiting", left.Waiting, []string{"fails", "runs", "waits", "waits too"})
		simtest.Want(t, "running", left.Running, nil)
		simtest.Want(t, "that it was stopped is no failure", c.Status().Failed, failed)
		if !strings.Contains(err.Error(), "controller one: ended with 4 still waiting (") || !strings.Contains(err.Error(), "waits too") {
			t.Error(err)
		}
	})
}

func TestAReconcileThatIgnoresItsContextIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c, keys := one(t, func(context.Context, string) (result, error) {
			<-release
			return result{}, nil
		}, controller.Options[string]{Grace: -1})
		stop := start(t, c)
		keys <- "stuck"
		synctest.Wait()
		left := leftOf(t, stop())
		simtest.Want(t, "running", left.Running, []string{"stuck"})
		// The key may still be processed, so no other worker may start it.
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("Run again: %v", err)
		}
		close(release)
	})
}

func TestTheUnfinishedErrorIsShort(t *testing.T) {
	e := &controller.UnfinishedError[int]{Controller: "x", Running: []int{1}}
	for i := range 12 {
		e.Waiting = append(e.Waiting, i)
	}
	simtest.Want(t, "text", e.Error(), "controller x: ended with 12 still waiting (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 2 more) 1 that did not stop (1)")
}

func TestAControllerMayRunAgainButNotTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newInformer("pods", simtest.Pods("shop/web"))
		start(t, pods)
		var d simtest.Recorder
		c := newController(t, func(_ context.Context, key object.Key) (result, error) {
			d.Add("%s", key)
			return result{}, nil
		}, options{}, controller.For(pods))
		for range 2 {
			stop := start(t, c)
			synctest.Wait()
			if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already running") {
				t.Errorf("Run while it runs: %v", err)
			}
			simtest.Want(t, "error", stop(), nil)
			simtest.Want(t, "reconciled", d.Take(), []string{"shop/web"})
		}
		simtest.Want(t, "subscribers that are left", len(pods.Status().Subscribers), 0)
	})
}

// part is a function as a Runner.
type part func(ctx context.Context) error

func (p part) Run(ctx context.Context) error { return p(ctx) }

func TestTheFirstFailureStopsAllAndAllCausesAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := errors.New("other")
		fails := make(chan struct{})
		pods := newInformer("pods", simtest.Pods())
		c := newController(t, func(context.Context, object.Key) (result, error) { return result{}, nil }, options{}, controller.For(pods))
		done := make(chan error)
		go func() {
			done <- controller.Run(context.Background(), pods, c,
				part(func(ctx context.Context) error { <-fails; return errOops }),
				part(func(ctx context.Context) error { <-ctx.Done(); return other }),
				part(func(ctx context.Context) error { return nil })) // a part that returns nil is no failure
		}()
		simtest.Advance(time.Hour)
		close(fails)
		err := <-done
		if !errors.Is(err, errOops) || !errors.Is(err, other) {
			t.Error(err)
		}
	})
}

func TestInformersOutliveControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/web")
		pods := newInformer("pods", srv)
		var live bool
		c := newController(t, func(ctx context.Context, _ object.Key) (result, error) {
			<-time.After(10 * time.Second) // Run must return before that
			srv.Set("shop/late")
			synctestSettle()
			_, live = pods.Get(object.Key{Namespace: "shop", Name: "late"})
			return result{}, nil
		}, options{}, controller.For(pods))
		stop := start(t, pods, c)
		synctest.Wait()
		simtest.Want(t, "error", stop(), nil)
		simtest.Want(t, "the mirror moved while the controller drained", live, true)
	})
}

// synctestSettle lets a moment of virtual time pass.
func synctestSettle() { <-time.After(time.Millisecond) }

func TestH06_SourcesThatAreNotReadySayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newInformer("pods", simtest.Pods()) // which is not running
		c := newController(t, func(context.Context, object.Key) (result, error) { return result{}, nil }, options{SyncTimeout: 2 * time.Minute}, controller.For(pods),
			controller.Source[object.Key]{Name: "disk", Run: wait, Ready: func(ctx context.Context) error { <-ctx.Done(); return errOops }})
		begin := time.Now()
		err := controller.Run(context.Background(), c)
		simtest.Want(t, "after", time.Since(begin), 2*time.Minute)
		var cause *informer.NotSyncedError
		if !errors.As(err, &cause) || !errors.Is(err, errOops) || !strings.HasPrefix(err.Error(), "controller web: source pods: informer pods: not synced: not ready after 2m0s") {
			t.Error(err)
		}
	})
}

// wait is a source that adds nothing.
func wait(ctx context.Context, _ *controller.Intake[object.Key]) error {
	<-ctx.Done()
	return nil
}

func TestH06_ByDefaultAControllerWaitsForItsSourcesAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		pods := newInformer("pods", simtest.Pods())
		c := newController(t, func(context.Context, object.Key) (result, error) { return result{}, nil }, options{Logger: logTo(&log)}, controller.For(pods))
		stop := start(t, c)
		simtest.Advance(time.Hour)
		s := c.Status()
		simtest.Want(t, "state", s.State, controller.Starting)
		if s.NotReady == nil || !strings.Contains(s.NotReady.Error(), "informer pods: not synced") || !strings.Contains(s.String(), "not ready: ") {
			t.Errorf("status: %v", s)
		}
		simtest.Want(t, "warnings in an hour", strings.Count(log.String(), "the sources are not ready"), 6)
		simtest.Want(t, "error", stop(), nil)
	})
}

// When the program's context ends, informers and controllers stop in any order.
func TestAnInformerThatStopsSlightlyEarlierIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, synced := range []bool{true, false} {
			pods := newInformer("pods", simtest.Pods())
			c := newController(t, func(context.Context, object.Key) (result, error) { return result{}, nil }, options{SyncTimeout: -1}, controller.For(pods))
			ctx, cancel := context.WithCancel(t.Context())
			if !synced {
				cancel() // it stops before its first list
			}
			ended := make(chan error, 1)
			go func() { ended <- pods.Run(ctx) }()
			stop := start(t, c)
			simtest.Advance(time.Millisecond)
			cancel()
			simtest.Want(t, "the informer's error", <-ended, nil)
			simtest.Advance(time.Second / 2)
			simtest.Want(t, "the controller's error", stop(), nil)
		}
	})
}

func TestASourceThatFailsOrPanicsEndsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(context.Context, object.Key) (result, error) { return result{}, nil }
		for _, run := range []func(context.Context, *controller.Intake[object.Key]) error{
			func(context.Context, *controller.Intake[object.Key]) error { return errOops },
			func(context.Context, *controller.Intake[object.Key]) error { panic(errOops) },
		} {
			err := newController(t, f, options{}, controller.Source[object.Key]{Name: "disk", Run: run}).Run(t.Context())
			var p *object.PanicError
			failed, panicked := errors.Is(err, errOops), errors.As(err, &p) && p.Value == errOops
			if failed == panicked || !strings.Contains(err.Error(), "source disk: oops") {
				t.Error(err)
			}
		}
		// An informer that stops on its own is a failure.
		pods := newInformer("pods", simtest.Pods())
		stop := start(t, pods)
		simtest.Advance(time.Second)
		done := make(chan error)
		go func() { done <- newController(t, f, options{}, controller.For(pods)).Run(t.Context()) }()
		simtest.Advance(time.Second)
		_ = stop()
		if err := <-done; !errors.Is(err, informer.ErrStopped) {
			t.Error(err)
		}
	})
}

func TestASourceWhoseReadyPanicsEndsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(context.Context, object.Key) (result, error) {
			t.Error("reconciled")
			return result{}, nil
		}
		one := func(ctx context.Context, in *controller.Intake[object.Key]) error {
			in.Add(object.Key{Name: "web"})
			<-ctx.Done()
			return nil
		}
		s := controller.Source[object.Key]{Name: "ready", Run: one, Ready: func(context.Context) error { panic(errOops) }}
		err := newController(t, f, options{}, s).Run(t.Context())
		var p *object.PanicError
		if !errors.As(err, &p) || p.Value != errOops || !strings.Contains(err.Error(), "source ready: oops") {
			t.Error(err)
		}
	})
}

func TestR07_AKeyInBackOffIsLeftWithoutAnError(t *testing.T) {
	for name, grace := range map[string]time.Duration{"with grace": 0, "without grace": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				c, keys := one(t, func(_ context.Context, key string) (result, error) {
					switch key {
					case "fails":
						return result{}, errOops
					case "stale":
						return result{}, controller.ErrStaleCache
					}
					return result{RequeueAfter: time.Hour}, nil
				}, controller.Options[string]{Grace: grace, Logger: logTo(&log)})
				stop := start(t, c)
				for _, key := range []string{"later", "fails", "stale"} {
					keys <- key
					simtest.Advance(time.Minute)
				}
				log.Reset()
				simtest.Want(t, "left while it runs", c.Status().Left, 0)
				simtest.Want(t, "error", stop(), nil)
				s := c.Status()
				simtest.Want(t, "left", s.Left, 2)
				simtest.Want(t, "keys that are left", len(s.LeftKeys), 2)
				if text := log.String(); !strings.Contains(text, "level=INFO") || !strings.Contains(text, "waiting=2") || !strings.Contains(text, "fails") {
					t.Error(text)
				}
			})
		})
	}
}

func TestR07_AReconcileThatFinishesInTimeIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(context.Context, string) (result, error) {
			<-time.After(10 * time.Second)
			return result{}, errOops // to be retried
		}, controller.Options[string]{})
		stop := start(t, c)
		for _, key := range []string{"runs", "waits"} {
			keys <- key
			synctest.Wait()
		}
		simtest.Want(t, "error", stop(), nil)
		simtest.Want(t, "left", c.Status().Left, 2)
	})
}
