package controller_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// gate is a fence and a leadership that tests open and close.
type gate struct {
	mu     sync.Mutex
	closed bool
	lost   chan struct{}
	terms  chan func() // each starts a term, and is called when the term has ended
	lose   context.CancelCauseFunc
}

func newGate() *gate { return &gate{lost: make(chan struct{}), terms: make(chan func())} }

func (g *gate) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return controller.ErrNotLeading
	}
	return nil
}

func (g *gate) Lost() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

// loses ends the term.
func (g *gate) loses() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	close(g.lost)
	g.lose(controller.ErrNotLeading)
}

func (g *gate) Run(ctx context.Context, lead func(context.Context, controller.Fence) error) error {
	for {
		select {
		case ended := <-g.terms:
			g.mu.Lock()
			g.closed, g.lost = false, make(chan struct{})
			var term context.Context
			term, g.lose = context.WithCancelCause(ctx)
			g.mu.Unlock()
			err := lead(term, g)
			g.lose(nil)
			ended()
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func TestNoReconcileOrWriteStartsWhileTheFenceIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		srv := simtest.Pods("shop/web")
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		var d simtest.Recorder
		step := make(chan struct{})
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			if pod, ok := pods.Get(key); !ok || pod.Labels["a"] != "" {
				return result{}, nil
			}
			d.Add("begin")
			<-step
			_, err := client.Patch(ctx, key, label[*corev1.Pod]("a", "1"), none{})
			d.Add("patch: %v", err)
			err2 := client.Delete(ctx, object.RawKey("shop/other"), none{})
			d.Add("delete: %v", errors.Is(err2, controller.ErrNotLeading))
			return result{}, errors.Join(err, controller.MayWrite(ctx))
		}, options{}, controller.For(pods))
		start(t, pods, controller.WhileLeading(g, c))
		synctest.Wait()
		simtest.Want(t, "before it leads", d.Take(), nil)
		simtest.Want(t, "state", c.Status().State, controller.Idle)
		g.terms <- func() {}
		synctest.Wait()
		simtest.Want(t, "leading", d.Take(), []string{"begin"})

		g.set(true) // the lease has expired, but the elector has not noticed
		step <- struct{}{}
		simtest.Advance(time.Second)
		simtest.Want(t, "closed", d.Take(), []string{"patch: controller: this process does not lead", "delete: true"})
		srv.Set("shop/web", label[*corev1.Pod]("b", "1"))
		simtest.Advance(time.Minute)
		simtest.Want(t, "still closed", d.Take(), nil)
		if c.Status().Fenced == nil {
			t.Error("the status does not report it")
		}
		simtest.Want(t, "failures", c.Status().Failed, 0)

		g.set(false) // it was renewed
		simtest.Advance(time.Second)
		simtest.Want(t, "open", d.Take(), []string{"begin"})
		close(step)
		simtest.Advance(time.Second)
		if lines := d.Take(); lines[0] != "patch: <nil>" {
			t.Error(lines)
		}
	})
}

func TestLostLeadershipCancelsReconcilesAndTheNextTermStartsWithAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		srv := simtest.Pods("shop/a", "shop/b")
		pods := newInformer("pods", srv)
		var d simtest.Recorder
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			d.Add("%s", key.Name)
			select {
			case <-time.After(5 * time.Second):
				return result{}, nil
			case <-ctx.Done():
				d.Add("%v", context.Cause(ctx))
				return result{}, ctx.Err()
			}
		}, options{}, controller.For(pods))
		stop := start(t, pods, controller.WhileLeading(g, c))
		ended := make(chan struct{}, 1)
		g.terms <- func() { ended <- struct{}{} }
		simtest.Advance(time.Second)
		begin := time.Now()
		g.loses()
		<-ended
		simtest.Want(t, "took", time.Since(begin), 0)
		simtest.Want(t, "first term", d.Take(), []string{"a", "controller: this process does not lead"})
		srv.Set("shop/c")
		simtest.Advance(time.Minute)
		simtest.Want(t, "on standby", d.Take(), nil)
		simtest.Want(t, "the mirror stays warm", pods.Len(), 3)
		g.terms <- func() {}
		simtest.Advance(time.Minute)
		simtest.Want(t, "second term", d.Take(), []string{"a", "b", "c"})
		simtest.Want(t, "error", stop(), nil)
	})
}

func TestLosingLeadershipEndsADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		pods := newInformer("pods", simtest.Pods("shop/a"))
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			<-ctx.Done()
			return result{}, ctx.Err()
		}, options{Grace: time.Hour}, controller.For(pods))
		stop := start(t, pods, controller.WhileLeading(g, c))
		g.terms <- func() {}
		simtest.Advance(time.Second)
		begin := time.Now()
		time.AfterFunc(time.Minute, g.loses)
		simtest.Want(t, "what waits is the next leader's", stop(), nil)
		simtest.Want(t, "took", time.Since(begin), time.Minute)
	})
}

func TestAStuckReconcileEndsAProcessThatLostLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		pods := newInformer("pods", simtest.Pods("shop/a"))
		release := make(chan struct{})
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			<-release
			return result{}, nil
		}, options{}, controller.For(pods))
		done := make(chan error)
		go func() { done <- controller.Run(context.Background(), pods, controller.WhileLeading(g, c)) }()
		g.terms <- func() {}
		simtest.Advance(time.Second)
		g.loses()
		var left *controller.UnfinishedError[object.Key]
		if err := <-done; !errors.As(err, &left) || len(left.Running) != 1 {
			t.Error(err)
		}
		close(release)
	})
}

// A controller in WhileLeading and Sharded has the fence of the term and that of its group.
func TestAllFencesOfAContextAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := newGate(), newGate()
		srv := simtest.Pods("shop/a")
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		start(t, pods)
		f := &recordingFence{Fence: outer}
		ctx := controller.WithFence(controller.WithFence(t.Context(), f), inner)
		write := func() error {
			_, err := client.Patch(ctx, object.RawKey("shop/a"), label[*corev1.Pod]("b", "1"), none{})
			return err
		}
		for _, g := range []*gate{outer, inner} {
			g.set(true)
			if err := write(); !errors.Is(err, controller.ErrNotLeading) {
				t.Errorf("a write: %v", err)
			}
			g.set(false)
		}
		simtest.Want(t, "a write", write(), nil)
		simtest.Want(t, "recorded writes", len(f.wrote), 1)
	})
}

func TestTheLossOfAnyFenceCancelsReconciles(t *testing.T) {
	for name, pick := range map[string]func(outer, inner *gate) *gate{
		"outer": func(outer, _ *gate) *gate { return outer },
		"inner": func(_, inner *gate) *gate { return inner },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer, inner := newGate(), newGate()
				lost := pick(outer, inner)
				lost.lose = func(error) {}
				ended := make(chan error, 1)
				c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return result{}, ctx.Err()
				}, controller.Options[string]{Grace: time.Hour})
				stop := background(controller.WithFence(controller.WithFence(t.Context(), outer), inner), c.Run)
				keys <- "k"
				synctest.Wait()
				begin := time.Now()
				lost.loses()
				if err := <-ended; err != controller.ErrNotLeading {
					t.Errorf("the reconcile was cancelled because of %v", err)
				}
				simtest.Want(t, "took", time.Since(begin), 0)
				simtest.Want(t, "error", stop(), nil)
			})
		})
	}
}

func TestLedRequiresALeadership(t *testing.T) {
	if err := controller.WhileLeading(nil).Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestWithoutAFenceEverythingMayBeWritten(t *testing.T) {
	simtest.Want(t, "error", controller.MayWrite(t.Context()), nil)
	simtest.Want(t, "attempt", controller.Attempt(t.Context()), 0)
	controller.Logger(t.Context()).Error("nobody hears this")
}
