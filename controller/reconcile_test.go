package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

var (
	errOops = errors.New("oops")
	web     = object.Key{Namespace: "shop", Name: "web"}
)

// one returns a controller that reconciles the keys sent to a channel.
func one(t testing.TB, reconcile controller.Func[string], opts controller.Options[string]) (*controller.Controller[string], chan<- string) {
	t.Helper()
	keys := make(chan string)
	c, err := controller.New("one", reconcile, opts, controller.Channel("keys", keys))
	if err != nil {
		t.Fatal(err)
	}
	return c, keys
}

func TestResultsDecideWhenAKeyIsReconciledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		begin := time.Now()
		left := map[string]int{"after": 2, "requeue": 3, "fails": 3}
		c, keys := one(t, func(_ context.Context, key string) (result, error) {
			d.Add("%s %v", key, time.Since(begin))
			if left[key]--; left[key] < 0 {
				return result{}, nil
			}
			switch key {
			case "after":
				return result{RequeueAfter: time.Minute}, nil
			case "requeue":
				return result{Requeue: true}, nil
			case "fails":
				return result{RequeueAfter: time.Hour}, errOops
			}
			return result{}, nil
		}, controller.Options[string]{Queue: workqueue.Options[string]{Limiter: workqueue.NewExponential[string](time.Second, time.Hour)}})
		start(t, c)
		for key, lines := range map[string][]string{
			"done":    {"done 0s"},
			"after":   {"after 0s", "after 1m0s", "after 2m0s"},
			"requeue": {"requeue 0s", "requeue 1s", "requeue 3s", "requeue 7s"},
			"fails":   {"fails 0s", "fails 1s", "fails 3s", "fails 7s"},
		} {
			begin = time.Now()
			keys <- key
			simtest.Advance(time.Hour)
			simtest.Want(t, key, d.Take(), lines)
		}
		s := c.Status()
		simtest.Want(t, "counts", []uint64{s.Reconciles, s.Failed, s.Requeued}, []uint64{12, 3, 3})
		simtest.Want(t, "failures of keys that are well", len(s.Failures), 0)
	})
}

func TestBackOffIsResetAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		begin := time.Now()
		n := 0
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			d.Add("attempt %d after %v", controller.Attempt(ctx), time.Since(begin))
			if n++; n%3 != 0 {
				return result{}, errOops
			}
			return result{}, nil
		}, controller.Options[string]{Queue: workqueue.Options[string]{Limiter: workqueue.NewExponential[string](time.Second, time.Hour)}})
		start(t, c)
		for range 2 {
			begin = time.Now()
			keys <- "k"
			simtest.Advance(time.Minute)
			simtest.Want(t, "attempts", d.Take(), []string{"attempt 1 after 0s", "attempt 2 after 1s", "attempt 3 after 3s"})
		}
	})
}

func TestAttemptsAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, keys := one(t, func(context.Context, string) (result, error) {
			n++
			return result{}, errOops
		}, controller.Options[string]{Attempts: 3})
		stop := start(t, c)
		for i := range 2 { // a new change starts with attempt 1
			keys <- "k"
			simtest.Advance(time.Hour)
			simtest.Want(t, "attempts", n, 3*(i+1))
		}
		s := c.Status()
		simtest.Want(t, "given up, failed", []uint64{s.GivenUp, s.Failed}, []uint64{2, 6})
		simtest.Want(t, "failures", len(s.Failures), 1)
		if !errors.Is(s.Failures[0].Err, errOops) || s.Failures[0].Attempt != 3 {
			t.Errorf("%+v", s.Failures[0])
		}
		simtest.Want(t, "what was left", stop(), nil)
	})
}

func TestATerminalErrorIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, keys := one(t, func(context.Context, string) (result, error) {
			n++
			return result{}, fmt.Errorf("looking: %w", controller.Terminal(errOops))
		}, controller.Options[string]{})
		start(t, c)
		keys <- "k"
		simtest.Advance(time.Hour)
		simtest.Want(t, "attempts", n, 1)
		if s := c.Status(); s.GivenUp != 1 || !errors.Is(s.Failures[0].Err, errOops) {
			t.Errorf("%+v", s)
		}
		simtest.Want(t, "Terminal(nil)", controller.Terminal(nil), nil)
	})
}

func TestAPanicIsReportedWithKeyAndStackAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := 0
		c, keys := one(t, func(context.Context, string) (result, error) {
			if n++; n < 3 {
				panic(errOops)
			}
			return result{}, nil
		}, controller.Options[string]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		start(t, c)
		keys <- "shop/web"
		synctest.Wait()
		f := c.Status().Failures
		var p *controller.PanicError
		if len(f) != 1 || !errors.As(f[0].Err, &p) || errors.Is(p, errOops) || p.Value != errOops || p.Where != "shop/web" || !bytes.Contains(p.Stack, []byte("reconcile_test.go")) {
			t.Errorf("%+v", f)
		}
		simtest.Advance(time.Minute)
		simtest.Want(t, "attempts", n, 3)
		simtest.Want(t, "panics", c.Status().Panicked, 2)
		for _, part := range []string{"level=WARN", "controller=one", "key=shop/web", "attempt=2", "duration=", "reconcile_test.go"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("no %s in the log:\n%s", part, log.String())
			}
		}
	})
}

func TestAReconcileThatCallsGoexitLosesNoWorkerAndNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, keys := one(t, func(context.Context, string) (result, error) {
			if n++; n < 3 {
				runtime.Goexit()
			}
			return result{}, nil
		}, controller.Options[string]{})
		stop := start(t, c)
		keys <- "k"
		simtest.Advance(time.Minute)
		simtest.Want(t, "attempts", n, 3)
		simtest.Want(t, "error", stop(), nil)
	})
}

func TestTheTimeoutCancelsAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return result{}, ctx.Err()
		}, controller.Options[string]{Timeout: time.Second, Attempts: 1})
		start(t, c)
		keys <- "k"
		simtest.Advance(time.Minute)
		simtest.Want(t, "cause", errors.Is(cause, controller.ErrTimeout), true)
		simtest.Want(t, "failed", c.Status().Failed, 1)
		simtest.Want(t, "latency", c.Status().Latency.Max, time.Second)
	})
}

func TestAConflictIsRetriedWithoutAnErrorLog(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", nil)
	for name, tt := range map[string]struct {
		err   error
		noise bool
	}{
		"conflict":        {conflict, false},
		"wrapped":         {fmt.Errorf("updating: %w", conflict), false},
		"two":             {errors.Join(conflict, conflict), false},
		"stale":           {controller.ErrStaleCache, false},
		"with some other": {errors.Join(conflict, errOops), true},
		"other":           {errOops, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				n := 0
				c, keys := one(t, func(context.Context, string) (result, error) {
					if n++; n < 4 {
						return result{}, tt.err
					}
					return result{}, nil
				}, controller.Options[string]{Attempts: 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				start(t, c)
				keys <- "k"
				simtest.Advance(time.Minute)
				simtest.Want(t, "attempts", n, 4)
				simtest.Want(t, "log", log.Len() > 0, tt.noise)
				simtest.Want(t, "failed", c.Status().Failed > 0, tt.noise)
				simtest.Want(t, "stale", c.Status().Stale > 0, name == "stale")
			})
		})
	}
}

func TestNothingIsLoggedAboveDebugInTheNormalCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quiet, loud bytes.Buffer
		run := func(log *bytes.Buffer, level slog.Level) {
			pods := newInformer("pods", simtest.Pods("shop/web", "shop/db"))
			c := newController(t, func(ctx context.Context, _ object.Key) (result, error) {
				controller.Logger(ctx).Debug("mine")
				return result{}, nil
			}, options{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))}, controller.For(pods))
			stop := start(t, pods, c)
			simtest.Advance(time.Minute)
			simtest.Want(t, "error", stop(), nil)
		}
		run(&quiet, slog.LevelInfo)
		run(&loud, slog.LevelDebug)
		simtest.Want(t, "log", quiet.String(), "")
		for _, part := range []string{"level=DEBUG", "msg=reconciled", "controller=web", "key=shop/web", "attempt=1", "duration=", "msg=mine"} {
			if !strings.Contains(loud.String(), part) {
				t.Errorf("no %s in the debug log:\n%s", part, loud.String())
			}
		}
	})
}

func TestK05_ChangesAreReconciledBeforeTheInitialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		for i := range 50 {
			srv.Set(fmt.Sprintf("shop/p%02d", i))
		}
		pods := newInformer("pods", srv)
		var d simtest.Recorder
		step := make(chan struct{})
		c := newController(t, func(_ context.Context, key object.Key) (result, error) {
			<-step
			d.Add("%s", key.Name)
			return result{}, nil
		}, options{}, controller.For(pods))
		stop := start(t, pods, c)
		synctest.Wait() // the worker has p00
		srv.Set("shop/p40", label[*corev1.Pod]("a", "b"))
		srv.Set("shop/new")
		synctest.Wait()
		close(step)
		synctest.Wait()
		lines := d.Take()
		simtest.Want(t, "first", lines[:4], []string{"p00", "p40", "new", "p01"})
		simtest.Want(t, "number", len(lines), 51)
		simtest.Want(t, "error", stop(), nil)
	})
}

func TestTheInitialStateIsNotStarvedByChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := newInformer("pods", simtest.Pods("shop/a", "shop/b", "shop/c"))
		seen := map[string]bool{}
		keys := make(chan object.Key)
		c := newController(t, func(_ context.Context, key object.Key) (result, error) {
			seen[key.Name] = true
			<-time.After(time.Second) // slower than the changes arrive
			return result{}, nil
		}, options{Queue: workqueue.Options[object.Key]{AgeAfter: 5 * time.Second}}, controller.For(pods), controller.Channel("busy", keys))
		start(t, pods, c)
		for i := range 40 {
			keys <- object.Key{Name: fmt.Sprint("busy", i)}
			simtest.Advance(500 * time.Millisecond)
		}
		for _, name := range []string{"a", "b", "c"} {
			simtest.Want(t, name, seen[name], true)
		}
	})
}

func TestTheRateLimitIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		c, keys := one(t, func(context.Context, string) (result, error) {
			starts = append(starts, time.Since(begin).Round(time.Millisecond))
			return result{}, nil
		}, controller.Options[string]{Rate: 2, Burst: 3})
		stop := start(t, c)
		for i := range 6 {
			keys <- fmt.Sprint(i)
		}
		simtest.Advance(time.Minute)
		ms := time.Millisecond
		simtest.Want(t, "starts", starts, []time.Duration{0, 0, 0, 500 * ms, 1000 * ms, 1500 * ms})
		// A key that waits for the rate limit is reported as left.
		begin = time.Now()
		for i := range 4 {
			keys <- fmt.Sprint("k", i)
		}
		synctest.Wait()
		simtest.Want(t, "error", stop(), nil)
		simtest.Want(t, "left", c.Status().LeftKeys, []any{"k3"})
	})
}

func TestOptionsAreChecked(t *testing.T) {
	src := controller.Channel("keys", make(chan string))
	f := func(context.Context, string) (result, error) { return result{}, nil }
	type opts = controller.Options[string]
	for what, try := range map[string]func() error{
		"no name":        func() error { _, err := controller.New("", f, opts{}, src); return err },
		"no reconcile":   func() error { _, err := controller.New("x", nil, opts{}, src); return err },
		"no sources":     func() error { _, err := controller.New("x", f, opts{}); return err },
		"no Run":         func() error { _, err := controller.New("x", f, opts{}, controller.Source[string]{}); return err },
		"Workers is -1":  func() error { _, err := controller.New("x", f, opts{Workers: -1}, src); return err },
		"Attempts is -1": func() error { _, err := controller.New("x", f, opts{Attempts: -1}, src); return err },
		"Timeout is -1":  func() error { _, err := controller.New("x", f, opts{Timeout: -1}, src); return err },
		"Rate is -1":     func() error { _, err := controller.New("x", f, opts{Rate: -1}, src); return err },
		"Burst is -1":    func() error { _, err := controller.New("x", f, opts{Burst: -1}, src); return err },
		"Burst requires": func() error { _, err := controller.New("x", f, opts{Burst: 1}, src); return err },
		"Errors is -1":   func() error { _, err := controller.New("x", f, opts{Errors: -1}, src); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLastErrorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(context.Context, string) (result, error) { return result{}, controller.Terminal(errOops) },
			controller.Options[string]{Errors: 3})
		start(t, c)
		for i := range 10 {
			keys <- fmt.Sprint(i)
			simtest.Advance(time.Second)
		}
		var got []any
		for _, f := range c.Status().Failures {
			got = append(got, f.Key)
		}
		simtest.Want(t, "keys", got, []any{"9", "8", "7"})
	})
}
