package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// watchOutcomes is an observer that records the ends of reconciles.
func watchOutcomes(d *simtest.Recorder) controller.Observer {
	return func(ctx context.Context, s controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
		return ctx, func(e controller.ReconcileEnd) {
			d.Add("%s %v %d: %s %v %v", s.Controller, s.Key, s.Attempt, e.Outcome, e.Err != nil, e.Duration)
		}
	}
}

func wantLines(t *testing.T, d *simtest.Recorder, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.Take()); diff != "" {
		t.Error(diff)
	}
}

func TestAnObserverSeesTheOutcomeOfEachReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		first := map[string]bool{}
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			<-time.After(time.Second)
			if first[key] {
				return result{}, nil
			}
			first[key] = true
			switch key {
			case "requeue":
				return result{Requeue: true}, nil
			case "after":
				return result{RequeueAfter: time.Second}, nil
			case "error":
				return result{}, errOops
			case "terminal":
				return result{}, controller.Terminal(errOops)
			case "panic":
				panic("oops")
			case "exit":
				runtime.Goexit()
			case "conflict":
				return result{}, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", nil)
			case "stale":
				return result{}, controller.ErrStaleCache
			case "fenced":
				return result{}, controller.ErrNotLeading
			}
			return result{}, nil
		}, controller.Options[string]{Observers: []controller.Observer{watchOutcomes(&d)}})
		start(t, c)
		for _, key := range []string{"fine", "requeue", "after", "error", "terminal", "panic", "exit", "conflict", "stale", "fenced"} {
			keys <- key
			simtest.Advance(time.Minute)
		}
		wantLines(t, &d,
			"one fine 1: success false 1s",
			"one requeue 1: requeue false 1s", "one requeue 1: success false 1s",
			"one after 1: requeue_after false 1s", "one after 1: success false 1s",
			"one error 1: error true 1s", "one error 2: success false 1s",
			"one terminal 1: terminal true 1s",
			"one panic 1: panic true 1s", "one panic 2: success false 1s",
			"one exit 1: error true 1s", "one exit 2: success false 1s",
			"one conflict 1: conflict true 1s", "one conflict 1: success false 1s",
			"one stale 1: stale true 1s", "one stale 1: success false 1s",
			"one fenced 1: fenced true 1s", "one fenced 1: success false 1s")
	})
}

func TestAReconcileThatTheShutdownCancelsIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			<-ctx.Done()
			return result{}, ctx.Err()
		}, controller.Options[string]{Grace: time.Second, Observers: []controller.Observer{watchOutcomes(&d)}})
		stop := start(t, c)
		keys <- "k"
		synctest.Wait()
		err := stop()
		wantLines(t, &d, "one k 1: fenced true 1s")
		simtest.Want(t, "status", errors.Is(err, c.Status().Err), true)
	})
}

type observedKey struct{}

func TestObserversWrapEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d simtest.Recorder
		names := func(ctx context.Context) string { s, _ := ctx.Value(observedKey{}).(string); return s }
		named := func(name string) controller.Observer {
			return func(ctx context.Context, _ controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
				d.Add("%s starts in %q", name, names(ctx))
				return context.WithValue(ctx, observedKey{}, names(ctx)+name), func(controller.ReconcileEnd) { d.Add("%s ends", name) }
			}
		}
		quiet := func(ctx context.Context, _ controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
			return ctx, nil
		}
		fence := newGate()
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			d.Add("reconcile in %q, attempt %d, fenced %v", names(ctx), controller.Attempt(ctx), controller.MayWrite(ctx) != nil)
			fence.set(true)
			d.Add("fenced %v", controller.MayWrite(ctx) != nil)
			return result{}, nil
		}, controller.Options[string]{Observers: []controller.Observer{named("a"), quiet, named("b")}})
		ctx, stop := context.WithCancel(controller.WithFence(context.Background(), fence))
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		keys <- "k"
		synctest.Wait()
		stop()
		simtest.Want(t, "error", <-done, nil)
		wantLines(t, &d, `a starts in ""`, `b starts in "a"`, `reconcile in "ab", attempt 1, fenced false`, "fenced true", "b ends", "a ends")
	})
}

// contextual adds a value of the context to each record.
type contextual struct{ slog.Handler }

func (h contextual) Handle(ctx context.Context, r slog.Record) error {
	if v := ctx.Value(observedKey{}); v != nil {
		r.AddAttrs(slog.Any("trace", v))
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextual) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextual{h.Handler.WithAttrs(attrs)}
}
func (h contextual) WithGroup(name string) slog.Handler { return contextual{h.Handler.WithGroup(name)} }

func TestLogRecordsOfAReconcileCarryItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		observer := func(ctx context.Context, s controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
			return context.WithValue(ctx, observedKey{}, s.Key), nil
		}
		c, keys := one(t, func(ctx context.Context, key string) (result, error) {
			controller.Logger(ctx).Info("plain")
			controller.Logger(ctx).With("a", 1).WithGroup("g").Info("with")
			controller.Logger(ctx).InfoContext(context.WithValue(ctx, observedKey{}, "child"), "explicit")
			return result{}, controller.Terminal(errOops)
		}, controller.Options[string]{
			Observers: []controller.Observer{observer}, Logger: slog.New(contextual{slog.NewTextHandler(&log, nil)}),
		})
		stop := start(t, c)
		keys <- "k1"
		synctest.Wait()
		simtest.Want(t, "error", stop(), nil)
		for i, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
			want := [...]string{"trace=k1", "g.trace=k1", "trace=child", "trace=k1"}[i]
			if !strings.HasSuffix(line, want) {
				t.Errorf("line %d: %s\nwant %s at its end", i, line, want)
			}
		}
		simtest.Want(t, "lines", strings.Count(log.String(), "\n"), 4)
	})
}
