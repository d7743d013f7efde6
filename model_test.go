package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// closer is a handle of any type.
type closer interface {
	Close()
	Len() int
	Status() tarn.MirrorStatus
}

// kinds are the mirrors to choose from; each has one watch.
var kinds = []func(*tarn.Cluster) (closer, error){
	func(c *tarn.Cluster) (closer, error) { return tarn.MirrorOf[*corev1.Pod](c) },
	func(c *tarn.Cluster) (closer, error) { return tarn.MirrorOf[*corev1.Pod](c, tarn.Compact()) },
	func(c *tarn.Cluster) (closer, error) {
		return tarn.MirrorResource(c, wire.Metadata(wire.MustOf[*corev1.Pod]().Resource))
	},
	func(c *tarn.Cluster) (closer, error) {
		return tarn.MirrorOf[*corev1.Pod](c, tarn.InNamespaces("shop"))
	},
}

// model applies a random plan to a cluster and compares it with the expected state: the number
// of open handles of each mirror.
type model struct {
	cluster *tarn.Cluster
	srv     *apiserver.Server
	open    [][]closer // by kind
	phase   int        // 0 before, 1 during, 2 after Run
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan error
}

func (m *model) step(action int) error {
	kind := action % len(kinds)
	switch action / len(kinds) {
	case 0, 1, 2:
		h, err := kinds[kind](m.cluster)
		switch {
		case m.phase == 2 && !errors.Is(err, tarn.ErrStopped):
			return fmt.Errorf("after Run: %v", err)
		case m.phase == 2:
		case err != nil:
			return err
		default:
			m.open[kind] = append(m.open[kind], h)
		}
	case 3, 4:
		if n := len(m.open[kind]); n > 0 {
			m.open[kind][n/2].Close()
			m.open[kind] = append(m.open[kind][:n/2:n/2], m.open[kind][n/2+1:]...)
		}
	case 5:
		switch {
		case m.phase == 0:
			m.phase = 1
			go func() { m.done <- m.cluster.Run(m.ctx) }()
		case kind == 0 && m.phase == 1:
			return m.stop()
		}
	}
	return nil
}

// stop ends Run.
func (m *model) stop() error {
	if m.phase != 1 {
		return nil
	}
	m.phase = 2
	m.cancel()
	return <-m.done
}

func (m *model) check() error {
	synctest.Wait()
	mirrors := 0
	for kind, handles := range m.open {
		if len(handles) == 0 {
			continue
		}
		mirrors++
		for _, h := range handles {
			st := h.Status()
			want, objects := []tarn.State{tarn.Declared, tarn.Live, tarn.Stopped}[m.phase], 0
			if m.phase == 1 {
				objects = 1
			}
			if st.State != want || len(st.Handles) != len(handles) || m.phase < 2 && h.Len() != objects {
				return fmt.Errorf("kind %d with %d handles in phase %d: %v of %v", kind, len(handles), m.phase, st, st.Handles)
			}
		}
	}
	watches := mirrors
	if m.phase != 1 {
		watches = 0
	}
	if st := m.cluster.Status(); len(st.Mirrors) != mirrors || m.srv.Watches("pods") != watches {
		return fmt.Errorf("%d mirrors and %d watches, want %d and %d", len(st.Mirrors), m.srv.Watches("pods"), mirrors, watches)
	}
	return nil
}

func TestMirrorsFollowTheirHandlesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(rapid.IntRange(0, 6*len(kinds)-1), 1, 40).Draw(rt, "plan")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
			must(srv.Create(pod("shop", "web", "")))
			m := &model{
				cluster: connect(t, tarn.WithConfig(srv.MemoryConfig())), srv: srv,
				open: make([][]closer, len(kinds)), done: make(chan error),
			}
			m.ctx, m.cancel = context.WithCancel(context.Background())
			for i, action := range plan {
				if failure = m.step(action); failure == nil {
					failure = m.check()
				}
				if failure != nil {
					failure = fmt.Errorf("step %d: %w", i, failure)
					break
				}
			}
			failure = errors.Join(failure, m.stop())
			m.cancel()
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

func TestHandlesAreOpenedAndClosedConcurrently(t *testing.T) {
	withCluster(t, with(tarn.WithTuning(tarn.Tuning{Lists: 2})), func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", ""))
		r.start()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range soak.Rounds(30) {
					h, err := kinds[rand.IntN(len(kinds))](r.Cluster)
					if err != nil {
						t.Error(err)
						return
					}
					byName := store.NewIndex("name", func(p *corev1.Pod) string { return p.Name })
					if pods, ok := h.(*tarn.Mirror[*corev1.Pod]); ok {
						pods.AddIndex(byName)
					}
					switch rand.IntN(4) {
					case 0:
						if err := r.WaitSynced(t.Context()); err != nil {
							t.Error(err)
						}
					case 1:
						_ = r.Status().String()
					case 2:
						_ = r.RBAC().String()
					}
					h.Close()
				}
			})
		}
		wg.Wait()
		r.watches("pods", 0)
		if st := r.Status(); len(st.Mirrors) != 0 || st.Listing != 0 {
			t.Errorf("left over: %+v", st)
		}
	})
}
