package controller_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestH10_AKeyIsNotReconciledBeforeTheCacheHasItsOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/web")
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		kicks := make(chan object.Key)
		var d simtest.Recorder
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			pod, _, err := client.Get(key)
			if err != nil {
				return result{}, err
			}
			d.Add("saw %q", pod.Labels["n"])
			if pod.Labels["n"] == "1" {
				return result{}, nil
			}
			pod = pod.DeepCopy()
			label[*corev1.Pod]("n", "1")(pod)
			_, err = client.Update(ctx, pod, none{})
			return result{}, err
		}, options{}, controller.For(pods), controller.Channel("kicks", kicks))
		srv.Hold(true) // it lists, and sends no events afterwards
		start(t, pods, c)
		synctest.Wait()
		simtest.Want(t, "first", d.Take(), []string{`saw ""`})
		for range 3 {
			kicks <- web
			simtest.Advance(10 * time.Second)
			simtest.Want(t, "while the mirror lags", len(d.Take()), 0)
		}
		srv.Hold(false)
		simtest.Advance(10 * time.Second)
		for _, line := range d.Take() {
			simtest.Want(t, "then", line, `saw "1"`)
		}
		s := c.Status()
		simtest.Want(t, "conflicts, failures", []uint64{s.Conflicts, s.Failed}, []uint64{0, 0})
		if s.Held == 0 {
			t.Error("nothing was held")
		}
		if v := srv.Version(); v != "102" {
			t.Errorf("version %s: something was written twice", v)
		}
	})
}

// Every reconcile creates an object that it does not find. With a stale cache it would create
// more and more.
func TestH10_AKeyIsNotReconciledBeforeTheCacheHasItsCreates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		keys := make(chan string)
		c, err := controller.New("set", func(ctx context.Context, set string) (result, error) {
			for i := pods.Len(); i < 3; i++ {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set, Name: fmt.Sprintf("p%d-%d", time.Now().UnixNano(), i)}}
				if _, err := client.Create(ctx, pod, none{}); err != nil {
					return result{}, err
				}
			}
			return result{}, errOops // retried soon
		}, controller.Options[string]{Attempts: 20}, controller.Channel("keys", keys))
		if err != nil {
			t.Fatal(err)
		}
		start(t, pods, c)
		synctest.Wait()
		srv.Hold(true)
		keys <- "shop"
		simtest.Advance(time.Minute)
		simtest.Want(t, "attempts while the mirror lags", c.Status().Reconciles, 1)
		srv.Hold(false)
		simtest.Advance(time.Hour)
		simtest.Want(t, "attempts", c.Status().Reconciles, 20)
		simtest.Want(t, "pods", len(srv.Objects()), 3)
	})
}

func TestH10_ADeletionIsSeenOnceTheObjectIsMarkedForDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const f = controller.Finalizer("example.com/f")
		srv := simtest.Pods("shop/web")
		srv.Set("shop/kept", func(p *corev1.Pod) { f.Add(p) })
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		start(t, pods)
		synctest.Wait()
		srv.Hold(true)
		for _, key := range []object.Key{web, object.RawKey("shop/kept")} {
			if err := client.Delete(t.Context(), key, none{}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := client.Get(key); !errors.Is(err, controller.ErrStaleCache) {
				t.Errorf("Get of %s: %v", key, err)
			}
		}
		// Created and deleted before the cache has either change.
		brief, err := client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "brief"}}, none{})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Delete(t.Context(), simtest.KeyOf(brief), none{}); err != nil {
			t.Fatal(err)
		}
		srv.Hold(false)
		synctest.Wait()
		for key, there := range map[string]bool{"shop/web": false, "shop/kept": true, "shop/brief": false} {
			pod, ok, err := client.Get(object.RawKey(key))
			if ok != there || err != nil || ok && pod.DeletionTimestamp == nil {
				t.Errorf("Get of %s: %v, %v, %v", key, pod, ok, err)
			}
		}
	})
}

func TestWritesAreForgottenOnceTheCacheHasThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		start(t, pods)
		for i := range 2000 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i)}}
			if _, err := client.Create(t.Context(), pod, none{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := pods.Status().PendingWrites; n > 64 {
			t.Errorf("%d writes are remembered", n)
		}
	})
}

func TestR03_AKeyWhoseWriteNeverReachesTheCacheIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		srv := simtest.Pods("shop/web")
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			if pod, _ := pods.Get(key); pod.Labels["a"] != "" {
				return result{}, nil
			}
			_, err := client.Patch(ctx, key, label[*corev1.Pod]("a", "1"), none{})
			return result{RequeueAfter: time.Second}, err
		}, options{Logger: logTo(&log)}, controller.For(pods))
		srv.Hold(true) // it lists, and sends no events afterwards
		start(t, pods, c)
		simtest.Advance(time.Minute)
		simtest.Want(t, "warnings", strings.Count(log.String(), "held back"), 1)
		held := c.Status().HeldKeys
		if len(held) != 1 || held[0].Key != any(web) || !errors.Is(held[0].Err, controller.ErrStaleCache) || !strings.Contains(held[0].Err.Error(), "pods") {
			t.Errorf("%+v", held)
		}
		srv.Hold(false)
		simtest.Advance(100 * time.Millisecond)
		simtest.Want(t, "held when it shows", len(c.Status().HeldKeys), 0)
	})
}
