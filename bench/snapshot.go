package main

import (
	"fmt"

	"github.com/tarnproject/tarn/store"
)

// snapshots measures taking and releasing a snapshot, also with a hundredth of the objects, to
// show that the time does not depend on the size.
func snapshots(l *lab) []Row {
	small := newStore()
	check(small.Replace("1", l.pods[:max(1, l.objects/100)]...))
	_, fewer := duel{least: true, tarn: func(n int) {
		for range n {
			small.Snapshot().Release()
		}
	}}.run(l)
	_, snapshot := duel{least: true, tarn: func(n int) {
		for range n {
			l.store.Snapshot().Release()
		}
	}}.run(l)
	snapshot.Note = fmt.Sprintf("%s with 1/100 of the objects", quantity(fewer.Value, Nanoseconds))
	_, pin := duel{least: true, tarn: func(n int) {
		for range n {
			l.store.View(func(store.Snapshot[pod]) {})
		}
	}}.run(l)
	constant := goal{"O(1)", func(r *Row) bool { return r.Tarn.Value < 1.5*fewer.Value }}
	return []Row{
		newRow("1 snapshot taken and released", nil, snapshot, constant, under(250, Nanoseconds)),
		newRow("1 short read pinned and released", nil, pin, under(30, Nanoseconds), noAllocs()),
	}
}

// diffs measures the Diff of two snapshots, the second of which has new versions of 1,000
// objects.
func diffs(l *lab) []Row {
	return []Row{diffOf(l, 1_000)}
}

// diffOf measures Diff with a number of changes.
func diffOf(l *lab, changes int) Row {
	before := l.store.Snapshot()
	defer before.Release()
	changed := l.some(changes)
	for _, p := range l.next(changed) {
		check(l.store.Set(p))
		check(l.indexer.Update(p))
	}
	after := l.store.Snapshot()
	defer after.Release()
	_, tarn := duel{least: true, tarn: func(n int) {
		for range n {
			found := 0
			for c := range store.Diff(before, after) {
				if c.Old() != c.New() {
					found++
				}
			}
			if found != changed {
				fail("Diff found %d changes; want %d", found, changed)
			}
		}
	}}.run(l)
	title := fmt.Sprintf("11 Diff over %s objects with %s changes", number(float64(l.objects)), number(float64(changed)))
	return newRow(title, nil, tarn, under(1e6, Nanoseconds))
}
