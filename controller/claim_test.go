package controller_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

// claiming is a controller of pods that reconciles only claimed namespaces, in a bubble.
type claiming struct {
	*controller.Controller[object.Key]
	server *simtest.Server[*corev1.Pod]
	mu     sync.Mutex // guards seen
	seen   []string
	work   func(ctx context.Context, key object.Key) error
}

func newClaiming(t *testing.T) *claiming {
	c := &claiming{server: simtest.Pods(), work: func(context.Context, object.Key) error { return nil }}
	pods := newInformer("pods", c.server)
	c.Controller = newController(t, func(ctx context.Context, key object.Key) (result, error) {
		c.mu.Lock()
		c.seen = append(c.seen, key.String())
		c.mu.Unlock()
		return result{}, c.work(ctx, key)
	}, options{Claims: true, Workers: 2, Grace: time.Minute, Queue: workqueue.Options[object.Key]{
		Group: func(key object.Key) string { return key.Namespace },
	}}, controller.For(pods))
	start(t, pods, c)
	return c
}

func (c *claiming) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.seen)
	if !slices.Equal(c.seen, want) {
		t.Errorf("reconciled %q, want %q", c.seen, want)
	}
	c.seen = nil
}

func (c *claiming) claim(namespace string) (release func() error) {
	return background(context.Background(), func(ctx context.Context) error { return c.Claim(ctx, namespace) })
}

func TestOnlyKeysOfClaimedGroupsAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClaiming(t)
		c.server.Set("a/1")
		c.server.Set("b/1")
		c.want(t)
		release := c.claim("a")
		c.want(t, "a/1") // what it had before is replayed
		c.server.Set("a/2")
		c.server.Set("b/2")
		c.want(t, "a/2")
		other := c.claim("b")
		c.want(t, "b/1", "b/2")
		ok(t, release())
		c.server.Set("a/3")
		c.server.Set("b/3")
		c.want(t, "b/3")
		release = c.claim("a")
		c.want(t, "a/1", "a/2", "a/3")
		ok(t, release())
		ok(t, other())
	})
}

func TestAReleasedGroupHasEndedItsReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClaiming(t)
		c.server.Set("a/1")
		var cause error
		c.work = func(ctx context.Context, _ object.Key) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			<-time.After(time.Hour) // it ignores its context for a while
			return cause
		}
		release := c.claim("a")
		c.want(t, "a/1")
		began := time.Now()
		ok(t, release())
		if took := time.Since(began); took != time.Minute+time.Hour {
			t.Errorf("the group was released after %v; want the grace period and what the reconcile took", took)
		}
		if cause != controller.ErrStopping {
			t.Errorf("the reconcile was cancelled with %v", cause)
		}
	})
}

func TestClaimNeedsAnOption(t *testing.T) {
	c := newController(t, func(context.Context, object.Key) (result, error) { return result{}, nil }, options{}, controller.Channel[object.Key]("none", nil))
	if err := c.Claim(t.Context(), "a"); err == nil {
		t.Error("a controller without Options.Claims accepted a claim")
	}
	if _, err := controller.New("c", func(context.Context, string) (result, error) { return result{}, nil },
		controller.Options[string]{Claims: true}, controller.Channel[string]("none", nil)); err == nil {
		t.Error("a controller with Claims and without Queue.Group was accepted")
	}
}

func TestAClaimedGroupBeginsWithTheKeysThatWereDeletedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClaiming(t)
		c.server.Set("a/1")
		c.server.Set("a/2")
		c.server.Set("b/1")
		c.want(t) // the events are handled; one that comes during a claim is reconciled besides the replay
		release := c.claim("a")
		c.want(t, "a/1", "a/2")
		ok(t, release())
		c.server.Delete("a/1") // no process works on the group
		c.server.Delete("b/1")
		c.want(t)
		release = c.claim("a")
		c.want(t, "a/1", "a/2")
		ok(t, release())
	})
}

// lone is a membership that has one group until the context is done.
type lone struct{ err error }

func (l *lone) Run(ctx context.Context, work func(context.Context, string, controller.Fence) error) error {
	l.err = work(ctx, "a", nil)
	return nil
}

func TestShutdownDoesNotWaitForReconcilesThatDoNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simtest.Pods()
		server.Set("a/1")
		pods := newInformer("pods", server)
		end := make(chan struct{})
		c := newController(t, func(context.Context, object.Key) (result, error) {
			<-end // it ignores its context
			return result{}, nil
		}, options{Claims: true, Grace: time.Minute, Queue: workqueue.Options[object.Key]{
			Group: func(key object.Key) string { return key.Namespace },
		}}, controller.For(pods))
		group := &lone{}
		stop := start(t, pods, controller.Sharded(group, c))
		synctest.Wait()
		began := time.Now()
		var unfinished *controller.UnfinishedError[object.Key]
		if err := stop(); !errors.As(err, &unfinished) {
			t.Errorf("Run returned %v", err)
		}
		if took := time.Since(began); took > 2*time.Minute { // virtual
			t.Errorf("shutdown took %v", took)
		}
		if group.err == nil {
			t.Error("the group was released while a reconcile runs")
		}
		close(end)
		synctest.Wait()
	})
}
