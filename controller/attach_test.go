package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/workqueue"
)

// attachable is a controller without sources, whose keys are "group/name", in a bubble.
type attachable struct {
	*controller.Controller[string]
	mu   sync.Mutex // guards seen
	seen []string
	work func(ctx context.Context, key string) error
}

func newAttachable(t *testing.T) *attachable {
	a := &attachable{work: func(context.Context, string) error { return nil }}
	c, err := controller.New("c", func(ctx context.Context, key string) (controller.Result, error) {
		a.mu.Lock()
		a.seen = append(a.seen, key)
		a.mu.Unlock()
		return controller.Result{}, a.work(ctx, key)
	}, controller.Options[string]{Queue: workqueue.Options[string]{Group: groupOf}})
	if err != nil {
		t.Fatal(err)
	}
	a.Controller = c
	return a
}

func groupOf(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

func (a *attachable) want(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := strings.Join(a.seen, " "); got != want {
		t.Errorf("reconciled %q, want %q", got, want)
	}
	a.seen = nil
}

// within returns a source of the keys of a group: a name n is the key "group/n".
func within(group string, names ...string) controller.Source[string] {
	source := controller.Source[string]{Name: "names", Run: func(ctx context.Context, in *controller.Intake[string]) error {
		in.AddInitial(names...)
		<-ctx.Done()
		return nil
	}}
	return controller.Map(source,
		func(name string) string { return group + "/" + name },
		func(key string) string { return strings.TrimPrefix(key, group+"/") })
}

// background runs f until the returned function is called, which returns f's error.
func background(ctx context.Context, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestAttachedGroupsFollowTheRunsOfTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttachable(t)
		detach := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1")) })
		a.want(t, "")
		for range 2 {
			stop := background(t.Context(), a.Run)
			a.want(t, "a/1")
			more := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "b", within("b", "2")) })
			a.want(t, "b/2")
			ok(t, more())
			ok(t, stop())
		}
		ok(t, detach())
	})
}

func TestAGroupThatIsNotReadyDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttachable(t)
		stop := background(t.Context(), a.Run)
		slow := within("slow", "1")
		slow.Ready = func(ctx context.Context) error {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		var detach []func() error
		for group, source := range map[string]controller.Source[string]{"slow": slow, "fast": within("fast", "1")} {
			detach = append(detach, background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, group, source) }))
		}
		a.want(t, "fast/1")
		<-time.After(time.Hour)
		a.want(t, "slow/1")
		for _, d := range detach {
			ok(t, d())
		}
		ok(t, stop())
	})
}

func TestDetachingCancelsReconcilesAndDropsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttachable(t)
		a.work = func(ctx context.Context, key string) error {
			if groupOf(key) == "a" {
				<-ctx.Done()
			}
			return context.Cause(ctx)
		}
		stop := background(t.Context(), a.Run)
		detach := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1", "2", "3")) })
		a.want(t, "a/1")
		other := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "b", within("b", "1")) })
		ok(t, detach())
		a.want(t, "b/1")
		<-time.After(time.Minute)
		if st := a.Status(); st.Failed > 0 || st.Queue.Waiting+st.Queue.Delayed > 0 {
			t.Errorf("after it was detached: %+v", st)
		}
		ok(t, other())
		ok(t, stop())
	})
}

func TestAttachedReconcilesHaveTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttachable(t)
		var err error
		a.work = func(ctx context.Context, _ string) error {
			<-time.After(20 * time.Second)
			err = ctx.Err()
			return err
		}
		stop := background(t.Context(), a.Run)
		detach := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1")) })
		a.want(t, "a/1")
		ok(t, stop())
		ok(t, err)
		ok(t, detach())
	})
}

func TestAReconcileThatIgnoresItsContextDoesNotBlockItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttachable(t)
		a.work = func(context.Context, string) error { <-time.After(time.Hour); return nil }
		stop := background(t.Context(), a.Run)
		detach := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1")) })
		a.want(t, "a/1")
		if err := detach(); err == nil || !strings.Contains(err.Error(), "have not returned") {
			t.Errorf("Attach returned %v", err)
		}
		<-time.After(time.Hour)
		ok(t, stop())
	})
}

func TestAGroupHasItsOwnFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, fence := newAttachable(t), newGate()
		var may error
		a.work = func(ctx context.Context, _ string) error { may = controller.MayWrite(ctx); return nil }
		stop := background(t.Context(), a.Run)
		fence.set(true)
		detach := background(controller.WithFence(t.Context(), fence), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1")) })
		other := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "b", within("b", "1")) })
		<-time.After(time.Minute)
		a.want(t, "b/1")
		fence.set(false)
		<-time.After(time.Minute)
		a.want(t, "a/1")
		ok(t, may)
		ok(t, detach())
		ok(t, other())
		ok(t, stop())
	})
}

func TestAGroupAlsoHasTheFenceOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, fence, own := newAttachable(t), newGate(), newGate()
		fence.lose = func(error) {}
		begun, ended := make(chan context.Context), make(chan error)
		a.work = func(ctx context.Context, _ string) error {
			begun <- ctx
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return ctx.Err()
		}
		stop := background(controller.WithFence(t.Context(), fence), a.Run)
		detach := background(controller.WithFence(t.Context(), own), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1")) })
		ctx := <-begun
		ok(t, controller.MayWrite(ctx))
		fence.set(true)
		if err := controller.MayWrite(ctx); !errors.Is(err, controller.ErrNotLeading) {
			t.Errorf("the fence of the run is closed: %v", err)
		}
		fence.loses()
		if err := <-ended; err != controller.ErrNotLeading {
			t.Errorf("the reconcile was cancelled because of %v", err)
		}
		ok(t, stop())
		ok(t, detach())
	})
}

func TestASourceThatFailsEndsOnlyItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, oops := newAttachable(t), errors.New("oops")
		stop := background(t.Context(), a.Run)
		run := func(context.Context, *controller.Intake[string]) error { return oops }
		if err := a.Attach(t.Context(), "a", controller.Source[string]{Name: "bad", Run: run}); !errors.Is(err, oops) {
			t.Errorf("Attach returned %v", err)
		}
		panics := func(context.Context, *controller.Intake[string]) error { panic(oops) }
		var p *controller.PanicError
		if err := a.Attach(t.Context(), "a", controller.Source[string]{Name: "bad", Run: panics}); !errors.As(err, &p) {
			t.Errorf("Attach returned %v", err)
		}
		detach := background(t.Context(), func(ctx context.Context) error { return a.Attach(ctx, "a", within("a", "1")) })
		a.want(t, "a/1")
		if err := a.Attach(t.Context(), "a", within("a", "1")); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("the second Attach returned %v", err)
		}
		ok(t, detach())
		ok(t, stop())
		own, err := controller.New("own", func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }, controller.Options[string]{}, within("a"))
		ok(t, err)
		if own.Attach(t.Context(), "a", within("a")) == nil {
			t.Error("a controller with sources of its own attached others")
		}
	})
}
