package controller_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

const finalizer = controller.Finalizer("example.com/f")

func TestR01_CleanupRunsOnceWhenTheLastFinalizerIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(ctx context.Context, c *podClient, pod *corev1.Pod) error{
		"update": func(ctx context.Context, c *podClient, pod *corev1.Pod) error {
			_, _, err := controller.Finalize(ctx, c.replace, pod, finalizer, func(context.Context, *corev1.Pod) error { return nil })
			return err
		},
		"patch": func(ctx context.Context, c *podClient, pod *corev1.Pod) error {
			_, err := c.Patch(ctx, simtest.KeyOf(pod), func(p *corev1.Pod) { finalizer.Remove(p) }, none{})
			return err
		},
		"apply": func(ctx context.Context, c *podClient, pod *corev1.Pod) error {
			_, err := c.Apply(ctx, simtest.KeyOf(pod), &corev1.Pod{}, none{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := simtest.Pods()
				srv.Set("shop/web", func(p *corev1.Pod) { finalizer.Add(p) })
				deleteAsUser(srv, "shop/web")
				pods := newInformer("pods", srv)
				client := newClient(srv, pods)
				kicks := make(chan object.Key)
				cleanups := 0
				c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
					pod, ok, err := client.Get(key)
					if err != nil || !ok {
						return result{}, err
					}
					cleanups++
					return result{Requeue: true}, remove(ctx, client, pod)
				}, options{}, controller.For(pods), controller.Channel("kicks", kicks))
				srv.Hold(true) // it lists, and sends no events afterwards
				start(t, pods, c)
				synctest.Wait()
				for range 3 {
					kicks <- web
					simtest.Advance(10 * time.Second)
				}
				simtest.Want(t, "cleanups while the cache lags", cleanups, 1)
				srv.Hold(false)
				simtest.Advance(10 * time.Second)
				simtest.Want(t, "cleanups", cleanups, 1)
				simtest.Want(t, "held", len(c.Status().HeldKeys), 0)
				simtest.Want(t, "failed", c.Status().Failed, 0)
			})
		})
	}
}

func TestR01_AnAppliedObjectIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/web")
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		start(t, pods)
		synctest.Wait()
		srv.Hold(true)
		config := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}}
		if pod, err := client.Apply(t.Context(), web, config, none{}); err != nil || pod.Labels["a"] != "1" {
			t.Fatal(pod, err)
		}
		if _, _, err := client.Get(web); !errors.Is(err, controller.ErrStaleCache) {
			t.Errorf("Get: %v", err)
		}
		srv.Hold(false)
		synctest.Wait()
		if pod, _, err := client.Get(web); err != nil || pod.Labels["a"] != "1" {
			t.Error(pod, err)
		}
	})
}

func TestR01_AKeyIsNotReconciledBeforeTheCacheHasADeletionByAnotherPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/web")
		pods := newInformer("pods", srv)
		client := newClient(srv, pods)
		kicks := make(chan object.Key)
		var d simtest.Recorder
		c := newController(t, func(_ context.Context, key object.Key) (result, error) {
			_, ok := pods.Get(key)
			d.Add("%v", ok)
			return result{}, nil
		}, options{}, controller.For(pods), controller.Channel("kicks", kicks))
		start(t, pods, c)
		synctest.Wait()
		simtest.Want(t, "first", d.Take(), []string{"true"})
		srv.Hold(true)
		if err := client.Delete(t.Context(), web, none{}); err != nil {
			t.Fatal(err)
		}
		kicks <- web
		simtest.Advance(10 * time.Second)
		simtest.Want(t, "before it shows", d.Take(), nil)
		srv.Hold(false)
		simtest.Advance(10 * time.Second)
		for _, line := range d.Take() {
			simtest.Want(t, "then", line, "false")
		}
	})
}

func TestR02_ReadsOfObjectsThatTheCacheWillNeverHaveReturnTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/web")
		pods, err := informer.New(srv, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
			Name: "pods", Reflector: reflector.Options[*corev1.Pod]{Streaming: reflector.StreamingOff},
			Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
				if p.Labels["bad"] != "" {
					return nil, errOops
				}
				return p, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := newClient(srv, pods)
		c := newController(t, func(ctx context.Context, key object.Key) (result, error) {
			pod, ok, err := client.Get(key)
			if err == nil && ok && pod.Labels["bad"] == "" {
				_, err = client.Patch(ctx, key, label[*corev1.Pod]("bad", "1"), none{})
				return result{Requeue: true}, err
			}
			return result{}, err
		}, options{Attempts: 3}, controller.For(pods))
		start(t, pods, c)
		simtest.Advance(time.Minute)
		s := c.Status()
		simtest.Want(t, "held", len(s.HeldKeys), 0)
		simtest.Want(t, "given up", s.GivenUp, 1)
		var q *informer.QuarantinedError
		if len(s.Failures) != 1 || !errors.As(s.Failures[0].Err, &q) || !errors.Is(q, errOops) {
			t.Errorf("%+v", s.Failures)
		}
	})
}

// throttled is a server that answers each request with 429 and a Retry-After.
type throttled struct {
	sent  int
	after func()
}

func (s *throttled) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	s.sent++
	s.after()
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"5"}},
		Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}

func TestR06_NoAttemptOfAWriteIsSentAfterTheLeaseHasEnded(t *testing.T) {
	type api = *wire.API[*corev1.Pod]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for name, send := range map[string]func(ctx context.Context, a api) (*corev1.Pod, error){
		"create": func(ctx context.Context, a api) (*corev1.Pod, error) { return a.Create(ctx, pod, wire.WriteOptions{}) },
		"update": func(ctx context.Context, a api) (*corev1.Pod, error) { return a.Update(ctx, pod, wire.WriteOptions{}) },
		"status": func(ctx context.Context, a api) (*corev1.Pod, error) {
			return a.UpdateStatus(ctx, pod, wire.WriteOptions{})
		},
		"patch": func(ctx context.Context, a api) (*corev1.Pod, error) {
			return a.Patch(ctx, web, wire.MergePatch([]byte(`{}`)), wire.WriteOptions{})
		},
		"apply": func(ctx context.Context, a api) (*corev1.Pod, error) {
			return a.Apply(ctx, web, map[string]any{}, wire.WriteOptions{FieldManager: "me"})
		},
		"delete": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				srv := &throttled{after: func() { g.set(true) }} // the lease ends while the client waits
				conn, err := wire.NewWithTransport(&url.URL{Scheme: "http", Host: "example.com"}, srv, wire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				api, pods := wire.For(conn, wire.MustOf[*corev1.Pod]()), controller.Track(newInformer("pods", simtest.Pods()))
				var sendErr error
				c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
					if ctx = controller.WithFence(ctx, g); send == nil {
						sendErr = pods.Delete(ctx, web, func(ctx context.Context) (object.Deletion, error) {
							return api.DeleteReturning(ctx, web, wire.DeleteOptions{})
						})
					} else {
						_, sendErr = pods.Write(ctx, web, func(ctx context.Context) (*corev1.Pod, error) { return send(ctx, api) })
					}
					return result{}, sendErr
				}, controller.Options[string]{})
				start(t, c)
				keys <- "k"
				simtest.Advance(7 * time.Second)
				simtest.Want(t, "requests", srv.sent, 1)
				if !errors.Is(sendErr, controller.ErrNotLeading) {
					t.Error(sendErr)
				}
				s := c.Status()
				simtest.Want(t, "a fenced write is no failure", []uint64{s.Failed, s.Reconciles}, []uint64{0, 0})
			})
		})
	}
}

// recordingFence is a fence that is informed of writes.
type recordingFence struct {
	controller.Fence
	wrote []string
}

func (f *recordingFence) Wrote(cache string, key object.Key, at object.Mark) {
	f.wrote = append(f.wrote, cache+" "+key.String()+"@"+string(at.Version))
}

// A new owner would wait in vain for an object that no cache selects.
func TestP03_WritesThatNoCacheWillHaveAreNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		pods, err := informer.New(srv, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
			Name: "pods", Selection: object.Selection{Labels: "app=web"},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := newClient(srv, pods)
		start(t, pods)
		f := &recordingFence{Fence: newGate()}
		ctx := controller.WithFence(t.Context(), f)
		for name, app := range map[string]string{"in": "web", "out": "db"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}}
			if _, err := client.Create(ctx, pod, none{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(f.wrote) != 1 || !strings.HasPrefix(f.wrote[0], "pods shop/in@") {
			t.Errorf("recorded: %q", f.wrote)
		}
	})
}
