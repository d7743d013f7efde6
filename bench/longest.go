package main

import "runtime"

// longestGet measures the longest Get of a reader that does nothing else, while everything
// is replaced: by new versions, and by the same ones.
//
// The longest call depends on what else wants a processor. So the time is also reported
// without the thread's waiting, as the kernel counts it, and there is a control: the same
// reader reads a map of its own while Tarn does the same work.
func longestGet(l *lab) []Row {
	own := make(map[string]pod, l.objects)
	for _, p := range l.pods {
		own[p.Namespace+"/"+p.Name] = p
	}
	rows := l.longestGet("of everything", l.successors(), own, better(1_000, "shorter"))
	return append(rows, l.longestGet("of nothing", l.copies(), own)...)
}

func (l *lab) longestGet(title string, other []pod, own map[string]pod, goals ...goal) []Row {
	untypedLists := [2][]any{untyped(other), untyped(l.pods)}
	batches := [2]*batch{listed(l.lastVersion(), other), listed(l.lastVersion(), l.pods)}
	type side struct {
		get  func(i int)
		work func(which int)
		seen []*watcher
	}
	apply := func(which int) {
		_, err := l.store.Apply(batches[which], nil)
		check(err)
	}
	sides := [3]side{
		{
			get:  l.getOneOfClientGo(),
			work: func(which int) { check(l.indexer.Replace(untypedLists[which], l.lastVersion())) },
		},
		{
			get:  l.getOneOfTarn(),
			work: apply,
		},
		{
			get: func(i int) {
				if own[l.names[i%len(l.names)]] == nil {
					fail("the map has nothing")
				}
			},
			work: apply,
		},
	}
	for round := range min(5, l.rounds) {
		for i := range sides {
			s := &sides[i]
			runtime.GC() // so that no collection falls into the work
			// Tarn applies twice in a round, for itself and for the control, so that its
			// list is another one each time.
			which := round % 2
			if i > 0 {
				which = (i - 1) % 2
			}
			s.seen = append(s.seen, watch(s.get, func() { s.work(which) }))
		}
	}
	l.restore()

	figures := func(s side) (wall, less *Figure) {
		var longest, own, p999 []float64
		for _, w := range s.seen {
			longest = append(longest, float64(w.longest))
			own = append(own, float64(w.own))
			p999 = append(p999, float64(w.all.quantile(0.999)))
		}
		wall = &Figure{Value: median(longest), Unit: Nanoseconds, Rounds: longest}
		less = &Figure{Value: median(own), Unit: Nanoseconds, Rounds: own}
		wall.Note = "p99.9 " + quantity(median(p999), Nanoseconds)
		return wall, less
	}
	wall, less := [3]*Figure{}, [3]*Figure{}
	for i, s := range sides {
		wall[i], less[i] = figures(s)
	}
	less[1].Note = "control " + quantity(less[2].Value, Nanoseconds)
	wall[1].Note += ", control " + quantity(wall[2].Value, Nanoseconds)
	return []Row{
		newRow("4 longest Get during a Replace "+title+", less waiting for a processor", less[0], less[1], goals...),
		newRow("4 longest Get during a Replace "+title+", on the wall", wall[0], wall[1], goals...),
	}
}
