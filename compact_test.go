package tarn_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// O01: objects that a compact mirror holds as they were received are those of a decoded mirror, in
// every encoding, from list, streaming list, watch and relist, for subscribers that keep up, fall
// behind, come late or never look. Subscribers that read an object share it, and none writes to it.
func TestO01_ACompactMirrorHasWhatADecodedOneHas(t *testing.T) {
	pods := wire.MustOf[*corev1.Pod]()
	for _, streaming := range []reflector.Mode{reflector.StreamingOff, reflector.StreamingOn} {
		received(t, "protobuf", streaming, pods)
		received(t, "json", streaming, pods.Encoded(wire.JSON))
		received(t, "metadata", streaming, wire.Metadata(pods.Resource))
		received(t, "unstructured", streaming, wire.Unstructured(pods.Resource))
	}
}

func received[P tarn.Pointer[X], X any](t *testing.T, name string, streaming reflector.Mode, res wire.Resource[P]) {
	t.Run(fmt.Sprintf("%s/streaming %v", name, streaming), func(t *testing.T) {
		opts := with(tarn.WithTuning(tarn.Tuning{Streaming: streaming}), tarn.WithMutationCheck(func(m store.Mutation) { t.Error(m) }))
		withCluster(t, opts, func(t *testing.T, r *testCluster) {
			for i := range 6 {
				r.create(replica(i))
			}
			decoded := must(tarn.MirrorResource(r.Cluster, res))
			compact := must(tarn.MirrorResource(r.Cluster, res, tarn.Compact()))
			byApp := store.NewIndex("app", func(obj P) string { return obj.GetLabels()["app"] }).Reads(object.FieldPath{"metadata", "labels", "app"})
			byTurn := store.NewIndex("turn", func(obj P) string { return obj.GetAnnotations()["turn"] }).
				Reads(object.FieldPath{"metadata", "annotations", "turn"})
			compact.AddIndex(byApp, byTurn, store.NewLabelIndex[P](nil))
			seen := [2]map[string]P{{}, {}}
			for i := range seen {
				must(compact.Subscribe(informer.Handler[P]{
					OnAdd:    func(obj P, _ bool) { seen[i][obj.GetName()] = obj },
					OnUpdate: func(_, obj P) { seen[i][obj.GetName()] = obj },
					OnDelete: func(obj P, _ bool) { delete(seen[i], obj.GetName()) },
				}, informer.SubOptions[P]{}))
			}
			free := make(chan struct{})
			slow := map[string]P{}
			must(compact.Subscribe(informer.Handler[P]{
				OnAdd:    func(obj P, _ bool) { <-free; slow[obj.GetName()] = obj },
				OnUpdate: func(_, obj P) { slow[obj.GetName()] = obj },
				OnDelete: func(obj P, _ bool) { delete(slow, obj.GetName()) },
			}, informer.SubOptions[P]{}))
			must(compact.SubscribeBatch(func(context.Context, []tarn.Event[P]) {}, informer.SubOptions[P]{}))
			same := func(what string, n, turned int) {
				t.Helper()
				synctest.Wait()
				snap := compact.Snapshot()
				defer snap.Release()
				if snap.Len() != n || byApp.Count(snap, "web") != n || byTurn.Count(snap, "2") != turned {
					t.Errorf("%s: %d objects, %d of the app, %d changed; want %d and %d", what, snap.Len(), byApp.Count(snap, "web"), byTurn.Count(snap, "2"), n, turned)
				}
				for obj := range decoded.Snapshot().All() {
					key := key(obj.GetNamespace(), obj.GetName())
					if got, ok := compact.Get(key); !ok || !reflect.DeepEqual(got, obj) {
						t.Errorf("%s: got %+v\nwant %+v", what, got, obj)
					}
					if a, b := seen[0][key.Name], seen[1][key.Name]; a == nil || a != b || !reflect.DeepEqual(a, obj) {
						t.Errorf("%s: %s: subscribers have %p and %p", what, key, a, b)
					}
				}
			}
			touch := func(names ...int) {
				t.Helper()
				for _, i := range names {
					p := replica(i)
					p.Annotations["turn"] = "2"
					must(r.srv.Update(p))
				}
			}
			r.start()
			same("listed", 6, 0)
			touch(1, 2)
			r.create(replica(6))
			if err := r.srv.Delete(replica(2)); err != nil {
				t.Fatal(err)
			}
			same("watched", 6, 1)
			byName := store.NewIndex("name", func(obj P) string { return obj.GetName() })
			compact.AddIndex(byName) // which does not say what it reads
			touch(5)
			same("with an index more", 6, 2)
			r.srv.Cut("pods")
			touch(3, 4)
			r.srv.Compact(0)
			simtest.Advance(time.Minute)
			same("listed again", 6, 4)
			compact.View(func(snap tarn.Snapshot[P]) {
				if byName.Count(snap, "web-4") != 1 || byName.Count(snap, "web-2") != 0 {
					t.Error("the index that was added has other objects")
				}
			})
			close(free)
			same("at the end", 6, 4)
			if len(slow) != 6 || slow["web-4"].GetAnnotations()["turn"] != "2" {
				t.Errorf("the slow subscriber has %v", slow)
			}
		})
	})
}

// The mutation check finds a write to a part that compact objects of one template have in common, and
// does not report a value that the server encodes in other words.
func TestTheMutationCheckOfACompactMirror(t *testing.T) {
	var found []store.Mutation
	opts := with(tarn.WithMutationCheck(func(m store.Mutation) { found = append(found, m) }))
	withCluster(t, opts, func(t *testing.T, r *testCluster) {
		for i := range 3 {
			p := replica(i)
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.5")}
			r.create(p)
		}
		pods := wire.MustOf[*corev1.Pod]()
		compact := must(tarn.MirrorResource(r.Cluster, pods, tarn.Compact()))
		inJSON := must(tarn.MirrorResource(r.Cluster, pods.Encoded(wire.JSON), tarn.Compact()))
		r.start()
		var held []*corev1.Pod // so that the collector does not free what was decoded
		for i := range 3 {
			held = append(held, at(t, compact, i), at(t, inJSON, i))
		}
		at(t, compact, 1).Spec.Containers[0].Image = "mine"
		r.stop() // which looks at everything
		if len(found) != 1 || found[0].Path != "Spec.Containers[0].Image" {
			t.Errorf("found %v", found)
		}
		runtime.KeepAlive(held)
	})
}

// What a transform puts into a field that is dropped stays, also when the object is decoded again.
func TestACompactMirrorHoldsWhatATransformSets(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		r.create(replica(1))
		mark := tarn.NewTransform("mark", func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Annotations = map[string]string{"mark": p.Name}
			return p, nil
		})
		compact := must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.Pod](), mark, tarn.Compact(), tarn.Drop(object.FieldPath{"metadata", "annotations"})))
		r.start()
		runtime.GC()
		if got := at(t, compact, 1).Annotations; len(got) != 1 || got["mark"] != "web-1" {
			t.Errorf("the annotations are %v", got)
		}
	})
}

// at returns a replica of a mirror.
func at(t *testing.T, m *tarn.Mirror[*corev1.Pod], i int) *corev1.Pod {
	t.Helper()
	p, ok := m.Get(key("shop", fmt.Sprint("web-", i)))
	if !ok {
		t.Fatalf("replica %d is missing", i)
	}
	return p
}
