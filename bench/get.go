package main

// quietGet measures a Get of a random object without a writer.
func quietGet(l *lab) []Row {
	at := 0
	tarn := func(n int) {
		found := 0
		for range n {
			if p, ok := l.store.Get(l.keys[at]); ok && p != nil {
				found++
			}
			if at++; at == len(l.keys) {
				at = 0
			}
		}
		if found != n {
			fail("Get found %d of %d", found, n)
		}
	}
	c, t := duel{least: true, clientGo: getByKey(l), tarn: tarn}.run(l)
	return []Row{newRow("2 Get, quiet", c, t, faster(1.5))}
}

// snapshotGet measures a Get from a snapshot, beside a plain lookup in client-go, which has no
// snapshots.
func snapshotGet(l *lab) []Row {
	snap := l.store.Snapshot()
	defer snap.Release()
	at := 0
	tarn := func(n int) {
		found := 0
		for range n {
			if p, ok := snap.Get(l.keys[at]); ok && p != nil {
				found++
			}
			if at++; at == len(l.keys) {
				at = 0
			}
		}
		if found != n {
			fail("Get found %d of %d", found, n)
		}
	}
	c, t := duel{least: true, clientGo: getByKey(l), tarn: tarn}.run(l)
	return []Row{newRow("+ Get through a snapshot", c, t)}
}

// getByKey returns the operation that looks up the lab's names in client-go's indexer.
func getByKey(l *lab) func(n int) {
	at := 0
	return func(n int) {
		found := 0
		for range n {
			obj, ok, err := l.indexer.GetByKey(l.names[at])
			if err == nil && ok {
				if p, ok := obj.(pod); ok && p != nil {
					found++
				}
			}
			if at++; at == len(l.names) {
				at = 0
			}
		}
		if found != n {
			fail("GetByKey found %d of %d", found, n)
		}
	}
}

// getOneOfClientGo returns a single Get of client-go's indexer, for measures that time each call.
func (l *lab) getOneOfClientGo() func(i int) {
	return func(i int) {
		obj, ok, err := l.indexer.GetByKey(l.names[i%len(l.names)])
		if err != nil || !ok || obj.(pod) == nil {
			fail("GetByKey found nothing")
		}
	}
}

// getOneOfTarn is the same for Tarn's store.
func (l *lab) getOneOfTarn() func(i int) {
	return func(i int) {
		if p, ok := l.store.Get(l.keys[i%len(l.keys)]); !ok || p == nil {
			fail("Get found nothing")
		}
	}
}
