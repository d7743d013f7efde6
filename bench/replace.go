package main

import (
	"github.com/tarnproject/tarn/object"
)

// replaceUnchanged measures a list of what both stores already hold: the same versions, in
// objects decoded again.
func replaceUnchanged(l *lab) []Row {
	again := l.copies()
	list, batch := untyped(again), listed(l.lastVersion(), again)
	clientGo := func(n int) {
		for range n {
			check(l.indexer.Replace(list, l.lastVersion()))
		}
	}
	c, t := duel{clientGo: clientGo, tarn: func(n int) {
		for range n {
			changes, err := l.store.Apply(batch, nil)
			check(err)
			if len(changes) != 0 {
				fail("Apply changed %d objects", len(changes))
			}
		}
	}}.run(l)
	rows := []Row{newRow("10 Replace with nothing changed", c, t, faster(15), fewAllocs(l.objects))}

	c, t = duel{clientGo: clientGo, tarn: func(n int) {
		for range n {
			check(l.store.Replace(object.Version(l.lastVersion()), again...))
		}
	}}.run(l)
	rows = append(rows, newRow("+ Replace with nothing changed, by Store.Replace", c, t))
	l.restore()
	return rows
}

// initialReplace measures the first list, into a store that is empty.
func initialReplace(l *lab) []Row {
	list, batch := untyped(l.pods), listed(l.lastVersion(), l.pods)
	c, t := duel{
		ops:     1,
		prepare: func() {},
		clientGo: func(int) {
			check(newIndexer().Replace(list, l.lastVersion()))
		},
		tarn: func(int) {
			s := newStore()
			_, err := s.Apply(batch, nil)
			check(err)
			if s.Len() != l.objects {
				fail("the store has %d objects", s.Len())
			}
		},
	}.run(l)
	return []Row{newRow("+ initial Replace of everything", c, t)}
}
