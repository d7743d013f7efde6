package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Random batches of events and lists, of everything, of namespaces and of parts of a shard. Each snapshot has
// what was unreadable when it was made.
func TestL11_ASnapshotHasWhatWasUnreadableWhenItWasMade(t *testing.T) {
	errBad := errors.New("bad")
	for seed := range uint64(soak.Rounds(200)) {
		r := rand.New(rand.NewPCG(seed, 28))
		s := newPodStore(t)
		version := 100
		now := map[object.Key]object.UID{}
		type taken struct {
			snap store.Snapshot[*corev1.Pod]
			want map[object.Key]object.UID
		}
		var all []taken
		key := func(ns string) object.Key {
			k := object.Key{Namespace: ns}
			if n := r.IntN(5); n > 0 {
				k.Name = strconv.Itoa(n)
			}
			return k
		}
		scoped := seed%2 == 0
		for range 40 {
			version++
			uid, at := object.UID(strconv.Itoa(r.IntN(100))), object.Version(strconv.Itoa(version))
			ns := []string{"a", "b"}[r.IntN(2)]
			scope := object.Everything
			if scoped {
				scope = object.Scope(ns)
			}
			mark := object.Mark{Scope: scope, Version: at}
			batch := &podBatch{Marks: []object.Mark{mark}}
			switch k := key(ns); r.IntN(4) {
			case 0:
				batch.Changes = []podDelta{{Kind: object.Quarantined, Key: k, UID: uid, Version: at,
					Value: object.Value[*corev1.Pod]{Encoded: object.Unreadable[*corev1.Pod]{Err: errBad}}}}
				now[k] = uid
			case 1:
				batch.Changes = []podDelta{{Kind: object.Quarantined, Key: k, UID: uid, Version: at}}
				delete(now, k)
			default:
				list := &object.List[*corev1.Pod]{Mark: mark}
				kept := func(object.UID, object.Key) bool { return false }
				if r.IntN(3) == 0 { // a part of a shard
					list.Shard, list.Part = object.Part(object.ByUID, 0, 2), object.Part(object.ByUID, 0, 4)
					kept = func(uid object.UID, k object.Key) bool {
						return list.Shard.Contains(uid, k.Namespace) && !list.Part.Contains(uid, k.Namespace)
					}
				}
				maps.DeleteFunc(now, func(k object.Key, uid object.UID) bool { return scope.Covers(k) && !kept(uid, k) })
				for n := range r.IntN(4) {
					item := object.Item[*corev1.Pod]{Key: object.Key{Namespace: ns, Name: fmt.Sprint(n)}, UID: uid, Version: at, Err: errBad}
					is := item.Key
					if n == 0 { // its key cannot be read
						item.Key, is = object.Key{}, object.Key{Namespace: string(scope)}
					}
					list.Items = append(list.Items, item)
					now[is] = uid
				}
				batch.Changes, batch.Marks = []podDelta{{Kind: object.Replaced, List: list}}, nil
			}
			if _, err := s.Apply(batch, nil); err != nil {
				t.Fatal(err)
			}
			all = append(all, taken{s.Snapshot(), maps.Clone(now)})
		}
		for i, of := range all {
			want(t, "number", of.snap.Unreadables(), len(of.want))
			for _, ns := range []string{"", "a", "b"} {
				for n := range 5 {
					k := object.Key{Namespace: ns}
					if n > 0 {
						k.Name = strconv.Itoa(n)
					}
					uid, bad := of.want[k]
					if u, ok := of.snap.Unreadable(k); ok != bad || u.UID != uid || ok && u.Cause != errBad {
						t.Fatalf("seed %d, snapshot %d: %s is %v, %t; want %q, %t", seed, i, k, u, ok, uid, bad)
					}
				}
			}
			of.snap.Release()
		}
	}
}
