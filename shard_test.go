package tarn_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// shardView is what a subscriber knows from its events alone.
type shardView struct {
	mu      sync.Mutex // guards all below
	has     map[object.Key]object.UID
	gate    chan struct{} // closed for one that does not block
	deleted []object.UID
	left    int
	wrong   error
}

func (v *shardView) receive(_ context.Context, events []tarn.Event[*corev1.ConfigMap]) {
	v.mu.Lock()
	gate := v.gate
	v.mu.Unlock()
	<-gate
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range events {
		has, known := v.has[e.Key]
		switch e.Kind {
		case tarn.Added:
			if known {
				v.wrong = fmt.Errorf("%s added twice", e.Key)
			}
			v.has[e.Key] = e.UID
			continue
		case tarn.Deleted:
			v.deleted = append(v.deleted, e.UID)
			delete(v.has, e.Key)
		case tarn.Left:
			v.left++
			delete(v.has, e.Key)
		}
		if !known || has != e.UID || e.New().UID != e.UID {
			v.wrong = fmt.Errorf("%v of %s %s, which is known as %q", e.Kind, e.Key, e.UID, has)
		}
	}
}

// The shard changes at random while objects do, watches break and versions expire. Whether or not the
// server shards, the mirror has the objects of the shard, slow and fast subscribers agree with it, and
// none receives a deletion of an object that exists.
func TestP05_WithAndWithoutServerShardingTheSameIsSeen(t *testing.T) {
	var left, deleted, outside int
	for seed := range uint64(soak.Rounds(48)) {
		r := rand.New(rand.NewPCG(seed, 5866))
		synctest.Test(t, func(t *testing.T) {
			srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: seed + 1, NoSharding: seed%2 == 0})
			opts := with(tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.DiscardHandler)))
			if seed%4 < 2 {
				opts = append(opts, tarn.WithTuning(tarn.Tuning{Streaming: reflector.StreamingOff}))
			}
			c := &testCluster{Cluster: connect(t, opts...), t: t, srv: srv}
			by := []object.ShardBy{object.ByUID, object.ByNamespace}[r.IntN(2)]
			part := tarn.NewShard(randomPart(r, by))
			options := []tarn.Option{tarn.InShard(part)}
			if r.IntN(2) == 0 {
				options = append(options, tarn.Compact())
			}
			some := r.IntN(4) == 0
			if some {
				options = append(options, tarn.InNamespaces("team-0", "team-1", "team-2"))
			}
			var transform *tarn.Transform[*corev1.ConfigMap]
			if r.IntN(2) == 0 {
				transform = tarn.NewTransform("without labels", func(m *corev1.ConfigMap) (*corev1.ConfigMap, error) { m.Labels = nil; return m, nil })
			}
			mirror := must(tarn.MirrorTransformed(c.Cluster, wire.MustOf[*corev1.ConfigMap](), transform, options...))
			open := make(chan struct{})
			close(open)
			views := []*shardView{{gate: open}, {gate: make(chan struct{})}}
			for _, v := range views {
				v.has = map[object.Key]object.UID{}
				must(mirror.SubscribeBatch(v.receive, tarn.SubOptions[*corev1.ConfigMap]{}))
			}
			exists := map[object.Key]object.UID{}
			for range 20 {
				writeSome(t, r, srv, exists)
			}
			c.start()
			for range 4 {
				for range 15 {
					switch r.IntN(10) {
					case 0, 1:
						part.Set(randomPart(r, by))
					case 2:
						srv.Cut("configmaps")
					case 3:
						srv.Compact(r.IntN(3))
					default:
						writeSome(t, r, srv, exists)
					}
					if r.IntN(2) == 0 {
						synctest.Wait()
					}
				}
				close(views[1].gate)
				simtest.Advance(10 * time.Minute)
				if err := mirror.WaitSynced(t.Context()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				synctest.Wait()
				want := map[object.Key]object.UID{}
				for k, uid := range exists {
					if part.Part().Contains(uid, k.Namespace) && (!some || k.Namespace != "team-3") {
						want[k] = uid
					}
				}
				got := map[object.Key]object.UID{}
				mirror.View(func(snap tarn.Snapshot[*corev1.ConfigMap]) {
					for m := range snap.All() {
						got[key(m.Namespace, m.Name)] = m.UID
					}
				})
				simtest.Want(t, fmt.Sprintf("seed %d: the mirror", seed), got, want)
				if has := mirror.Informer().Shard(); has != part.Part() {
					t.Errorf("seed %d: the mirror has %s, want %s", seed, has.Selector(), part.Part().Selector())
				}
				for i, v := range views {
					v.mu.Lock()
					simtest.Want(t, fmt.Sprintf("seed %d: subscriber %d", seed, i), v.has, want)
					for _, uid := range v.deleted {
						if slices.Contains(slices.Collect(maps.Values(exists)), uid) {
							t.Errorf("seed %d: subscriber %d received a deletion of %s, which exists", seed, i, uid)
						}
					}
					if v.wrong != nil {
						t.Errorf("seed %d: subscriber %d: %v", seed, i, v.wrong)
					}
					v.mu.Unlock()
				}
				views[1].mu.Lock()
				views[1].gate = make(chan struct{})
				views[1].mu.Unlock()
			}
			close(views[1].gate)
			for _, v := range views {
				left, deleted = left+v.left, deleted+len(v.deleted)
			}
			for _, s := range mirror.Informer().Sources() {
				if n := s.Reflector.Counts.Outside; seed%2 == 1 && n > 0 {
					t.Errorf("seed %d: the server shards, but sent %d objects outside", seed, n)
				} else {
					outside += int(n)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	if left == 0 || deleted == 0 || outside == 0 {
		t.Errorf("%d left, %d deleted, %d outside", left, deleted, outside)
	}
	t.Logf("%d left, %d deleted, %d outside", left, deleted, outside)
}

// randomPart returns some of 16 slots.
func randomPart(r *rand.Rand, by object.ShardBy) object.Shard {
	var ranges []object.HashRange
	share := r.IntN(5)
	for slot := range uint64(16) {
		if r.IntN(4) < share {
			ranges = append(ranges, object.HashRange{First: slot << 60, Last: slot<<60 | (1<<60 - 1)})
		}
	}
	return object.NewShard(by, ranges...)
}

// writeSome creates, updates or deletes an object.
func writeSome(t *testing.T, r *rand.Rand, srv *apiserver.Server, exists map[object.Key]object.UID) {
	t.Helper()
	at := key(fmt.Sprintf("team-%d", r.IntN(4)), fmt.Sprintf("map-%d", r.IntN(12)))
	obj := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"n": fmt.Sprint(r.Int())},
	}
	var err error
	switch _, ok := exists[at]; {
	case !ok:
		made, failed := srv.Create(obj)
		if err = failed; err == nil {
			exists[at] = made.(*corev1.ConfigMap).UID
		}
	case r.IntN(3) == 0:
		delete(exists, at)
		err = srv.Delete(obj)
	default:
		_, err = srv.Update(obj)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An object that left the shard is not reconciled: a reconcile would not find it, and take it for
// deleted.
func TestP01_AnObjectThatLeftTheShardIsNotReconciled(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		part := tarn.NewShard(object.Part(object.ByNamespace, 0, 1))
		mirror := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.InShard(part)))
		client := mirror.Client()
		var seen simtest.Recorder
		must(tarn.NewController(r.Cluster, "maps", func(ctx context.Context, k tarn.Key) (tarn.Result, error) {
			_, err := client.Get(ctx, k)
			seen.Add("%s %v", k, apierrors.IsNotFound(err))
			return tarn.Result{}, nil
		}, tarn.For(mirror)))
		for _, ns := range []string{"a", "b"} {
			m := configMap("web", nil)
			m.Namespace = ns
			r.create(m)
		}
		r.start()
		simtest.Want(t, "at first", slices.Sorted(slices.Values(seen.Take())), []string{"a/web false", "b/web false"})
		b := object.Hash("b")
		part.Set(object.NewShard(object.ByNamespace, object.HashRange{First: b, Last: b}))
		synctest.Wait()
		simtest.Want(t, "after a has left", seen.Take(), nil)
		m := configMap("web", nil)
		m.Namespace = "b"
		if err := r.srv.Delete(m); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		simtest.Want(t, "after a deletion", seen.Take(), []string{"b/web true"})
		// a comes back.
		part.Set(object.Part(object.ByNamespace, 0, 1))
		if err := r.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		simtest.Want(t, "after a has come back", seen.Take(), []string{"a/web false"})
	})
}

func TestClientsOfAShardReadThrough(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		shop := object.Hash("shop")
		part := tarn.NewShard(object.NewShard(object.ByNamespace, object.HashRange{First: shop, Last: shop}))
		mirror := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.InShard(part)))
		c := mirror.Client()
		r.create(configMap("web", nil))
		r.start()
		simtest.Want(t, "name", mirror.Name(), "configmaps of a shard")
		other := configMap("web", map[string]string{"n": "1"})
		other.Namespace = "elsewhere"
		wrote := must(c.Create(t.Context(), other))
		if got, err := c.Get(t.Context(), key("elsewhere", "web")); err != nil || got.UID != wrote.UID {
			t.Errorf("got %v, %v", got, err)
		}
		if _, err := c.Get(t.Context(), key("elsewhere", "none")); !apierrors.IsNotFound(err) {
			t.Errorf("an object that does not exist: %v", err)
		}
		_, outcome, err := c.CreateOrUpdate(t.Context(), other, func(m *corev1.ConfigMap) error { m.Data = map[string]string{"n": "2"}; return nil })
		if err != nil || outcome != tarn.OutcomeUpdated {
			t.Errorf("an object of another shard: %v, %v", outcome, err)
		}
		if list := must(c.List(t.Context())); len(list) != 1 || mirror.Len() != 1 {
			t.Errorf("%d listed, %d mirrored", len(list), mirror.Len())
		}
		// Two mirrors of one Shard are one; another Shard is another mirror.
		same := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.InShard(part)))
		another := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.InShard(tarn.NewShard(part.Part()))))
		synctest.Wait()
		if same.Informer() != mirror.Informer() || another.Informer() == mirror.Informer() {
			t.Error("mirrors are shared by their Shard")
		}
		another.Close()
		synctest.Wait()
		part.Set(object.Part(object.ByNamespace, 0, 1))
		if err := r.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait() // what was created after the version that the watch had reached comes with the next watch
		simtest.Want(t, "objects", mirror.Len(), 2)
		for _, opt := range []tarn.Option{tarn.InShard(nil), tarn.InShard(tarn.NewShard(object.Shard{}))} {
			if _, err := tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.InShard(part), opt); err == nil {
				t.Error("two shards of one mirror, or none")
			}
		}
	})
}
