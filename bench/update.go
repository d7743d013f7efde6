package main

import (
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// updated is the number of objects that a turn writes.
const updated = 20_000

// singleUpdates measures updates of one object, with three indexes whose values do not change.
// Every update is a new version: just decoded, or made long before and no longer in the CPU
// cache.
func singleUpdates(l *lab) []Row {
	c, t := l.arrive(
		func(objs []pod) func() {
			return func() {
				for _, p := range objs {
					check(l.indexer.Update(p))
				}
			}
		},
		func(objs []pod) func() {
			return func() {
				for _, p := range objs {
					check(l.store.Set(p))
				}
			}
		},
	)
	rows := []Row{newRow("8 update, 3 indexes unchanged, single", c, t, faster(4), allocsAtMost(2))}
	var objs []pod
	c, t = duel{
		ops:     l.some(updated),
		prepare: func() { objs = l.next(l.some(updated)) },
		clientGo: func(int) {
			for _, p := range objs {
				check(l.indexer.Update(p))
			}
		},
		tarn: func(int) {
			for _, p := range objs {
				check(l.store.Set(p))
			}
		},
	}.run(l)
	return append(rows, newRow("+ update, single, cold objects", c, t))
}

// batchUpdates measures the same in batches of 100: Tarn's Apply, as called by an informer,
// beside client-go's Transaction, which takes its lock once per batch.
func batchUpdates(l *lab) []Row {
	in := l.indexer.(cache.TransactionStore)
	var changes []object.Change[pod]
	c, t := l.arrive(
		func(objs []pod) func() {
			var txn []cache.Transaction
			for _, p := range objs {
				txn = append(txn, cache.Transaction{Type: cache.TransactionTypeUpdate, Object: p})
			}
			return func() {
				if err := in.Transaction(txn...); err != nil {
					check(err)
				}
			}
		},
		func(objs []pod) func() {
			b := &batch{}
			for _, p := range objs {
				item, err := object.ItemOf(meta, p)
				check(err)
				b.Changes = append(b.Changes, object.ChangeOf(object.Updated, &item))
				b.Marks = []object.Mark{{Version: object.Version(p.ResourceVersion)}}
			}
			return func() {
				var err error
				changes, err = l.store.Apply(b, changes[:0])
				check(err)
				if len(changes) != len(b.Changes) {
					fail("Apply changed %d of %d objects", len(changes), len(b.Changes))
				}
			}
		},
	)
	clear(changes[:cap(changes)])
	return []Row{newRow(fmt.Sprintf("8 update, 3 indexes unchanged, batches of %d", group), c, t, faster(4), allocsAtMost(2))}
}

func keyOf(p pod) object.Key { return object.Key{Namespace: p.Namespace, Name: p.Name} }

// costlierUpdates measures single updates of a store with a label index, and of one with an open
// snapshot that still sees every superseded version.
func costlierUpdates(l *lab) []Row {
	labelled := newStore(store.NewLabelIndex(meta.Labels))
	check(labelled.Replace("1", l.pods...))
	var objs []pod
	prepare := func() { objs = l.next(l.some(updated)) }
	clientGo := func(int) {
		for _, p := range objs {
			check(l.indexer.Update(p))
		}
	}
	set := func(in *store.Store[pod]) func(int) {
		return func(int) {
			for _, p := range objs {
				check(in.Set(p))
			}
		}
	}
	c, t := duel{ops: l.some(updated), prepare: prepare, clientGo: clientGo, tarn: set(labelled)}.run(l)
	rows := []Row{newRow("+ update, Tarn with a label index", c, t)}
	l.restore()

	var held store.Snapshot[pod]
	c, t = duel{
		ops: l.some(updated),
		prepare: func() {
			held.Release()
			held = l.store.Snapshot()
			prepare()
		},
		clientGo: clientGo,
		tarn:     set(l.store),
	}.run(l)
	held.Release()
	return append(rows, newRow("+ update, Tarn with a snapshot held", c, t))
}

// insertDelete measures deleting random objects and inserting them again in another order, a
// thousand at a time. One operation is one of each.
func insertDelete(l *lab) []Row {
	const size = 1_000
	var objs []pod
	var keys []object.Key
	prepare := func() {
		objs = l.next(l.some(updated))
		keys = keys[:0]
		for _, p := range objs {
			check(l.indexer.Update(p))
			check(l.store.Set(p))
			keys = append(keys, keyOf(pod(p.DeepCopy())))
		}
	}
	c, t := duel{
		ops:     l.some(updated),
		prepare: prepare,
		clientGo: func(int) {
			for from := 0; from < len(objs); from += size {
				group := objs[from:min(from+size, len(objs))]
				for _, p := range group {
					check(l.indexer.Delete(p))
				}
				for i := range group {
					check(l.indexer.Add(group[len(group)-1-i]))
				}
			}
		},
		tarn: func(int) {
			for from := 0; from < len(objs); from += size {
				group := objs[from:min(from+size, len(objs))]
				for i := range group {
					if !l.store.Delete(keys[from+i]) {
						fail("Delete found nothing")
					}
				}
				for i := range group {
					check(l.store.Set(group[len(group)-1-i]))
				}
			}
		},
	}.run(l)
	if l.store.Len() != l.objects {
		fail("the store has %d objects; want %d", l.store.Len(), l.objects)
	}
	return []Row{newRow("9 insert and delete, 3 indexes", c, t, notSlower())}
}
