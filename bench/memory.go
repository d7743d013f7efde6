package main

import (
	"math"
	"runtime"

	"github.com/tarnproject/tarn/store"
)

// memory measures the heap use of a store and its indexes per object. The lab keeps the objects
// themselves alive.
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

	// The same with objects added one by one, which leads to different map sizes.
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

	// And after an update of every object, in random order.
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

// weigh returns the heap bytes per object of the value that build returns. Nothing else
// allocates at the same time, so one round is enough.
func (l *lab) weigh(build func() any) *Figure {
	before := heap()
	built := build()
	bytes := heap() - before
	runtime.KeepAlive(built)
	return &Figure{Value: math.Max(0, float64(bytes)/float64(l.objects)), Unit: Bytes}
}
