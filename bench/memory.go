package main

import (
	"math"
	"runtime"

	"github.com/tarnproject/tarn/store"
)

// memory measures what a store and its indexes take on the heap, per object; the objects are
// kept alive by the lab, with or without a store.
func memory(l *lab) []Row {
	list, batch := untyped(l.pods), listed(l.lastVersion(), l.pods)
	filled := func(more ...store.AnyIndex[pod]) *store.Store[pod] {
		s := newStore(more...)
		_, err := s.Apply(batch, nil)
		check(err)
		return s
	}
	clientGo := l.weigh(func() any {
		s := newIndexer()
		check(s.Replace(list, l.lastVersion()))
		return s
	})
	tarn := l.weigh(func() any { return filled() })
	rows := []Row{newRow("12 memory of store and 3 indexes, per object", clientGo, tarn, shareOfMemory(0.7))}

	// The same when the objects came one by one, which leaves maps of another size.
	clientGo = l.weigh(func() any {
		s := newIndexer()
		for _, p := range l.pods {
			check(s.Add(p))
		}
		return s
	})
	tarn = l.weigh(func() any {
		s := newStore()
		for _, p := range l.pods {
			check(s.Set(p))
		}
		return s
	})
	rows = append(rows, newRow("12 memory per object, added one by one", clientGo, tarn, shareOfMemory(0.7)))

	// And when every object was written once more, in random order.
	next := l.successors()
	clientGo = l.weigh(func() any {
		s := newIndexer()
		check(s.Replace(list, l.lastVersion()))
		for _, i := range l.order {
			check(s.Update(next[i]))
		}
		return s
	})
	tarn = l.weigh(func() any {
		s := filled()
		for _, i := range l.order {
			check(s.Set(next[i]))
		}
		return s
	})
	rows = append(rows, newRow("+ memory per object after each was updated", clientGo, tarn))
	runtime.KeepAlive(next)

	tarn = l.weigh(func() any { return filled(store.NewLabelIndex(meta.Labels)) })
	rows = append(rows, newRow("+ memory per object, plus a label index", nil, tarn))
	objects := &Figure{Value: l.podBytes, Unit: Bytes}
	return append(rows, newRow("+ memory of the object itself, same for both", objects, objects))
}

// weigh returns the bytes per object that what build returns takes on the heap. Nothing else
// allocates meanwhile, so once is enough.
func (l *lab) weigh(build func() any) *Figure {
	before := heap()
	built := build()
	bytes := heap() - before
	runtime.KeepAlive(built)
	return &Figure{Value: math.Max(0, float64(bytes)/float64(l.objects)), Unit: Bytes}
}
