package main

import "fmt"

// informerEventRows measures a change through an informer with one handler and with ten.
func informerEventRows(l *lab) []Row {
	var rows []Row
	for _, m := range []struct {
		number, handlers string
		n                int
		less             float64
	}{{"31", "1 handler", 1, 3}, {"32", "10 handlers", 10, 6}} {
		s := l.turns(l.someRounds(), job{Measure: "informer-events", Handlers: m.n}, sideClientGo, sideTarn)
		c, t := cpuEach(s[0]), cpuEach(s[1])
		received := perOp(s[1], Count, func(s sample) float64 { return s.Values["received"] / float64(m.n) })
		t.Note = fmt.Sprintf("%s %% of the changes delivered one by one", number(100*received.Value))
		rows = append(rows, newRow(m.number+" informer: event, decoded, 3 indexes, "+m.handlers+", CPU", c, t, better(m.less, "less CPU")))
		if m.n == 1 {
			rows = append(rows, newRow("33 informer: allocations per event", allocsEach(s[0]), allocsEach(s[1]), better(4, "fewer")))
		}
	}
	return rows
}

// informerBlockedRows measures the memory cost of a handler that does not return.
func informerBlockedRows(l *lab) []Row {
	s := l.turns(1, job{Measure: "informer-blocked"}, sideClientGo, sideTarn)
	return []Row{newRow(fmt.Sprintf("34 informer: handler blocked while %s updates hit 1,000 keys, heap growth", number(float64(l.objects))),
		liveEach(s[0]), liveEach(s[1]), better(20, "less"))}
}

// podStream is the default replay for informers: a streaming list of all pods in protobuf, which
// both sides try first.
func podStream() replay {
	return replay{Resource: podResource, Encoding: protobufEncoding, Way: byStream}
}

// value returns the figure of one of the values of the samples.
func value(samples []sample, unit Unit, name string) *Figure {
	return perOp(samples, unit, func(s sample) float64 { return s.Values[name] })
}

// informerRelistRows measures a relist without changes.
func informerRelistRows(l *lab) []Row {
	var rows []Row
	for _, m := range []struct {
		over string
		tls  bool
		less float64
	}{{"plain HTTP", false, 20}, {"TLS", true, 8}} {
		j := job{Measure: "informer-relist", Replay: podStream()}
		j.Replay.TLS = m.tls
		j.Replay = l.prepare(j.Replay)
		s := l.turns(1, j, sideClientGo, sideTarn)
		rows = append(rows, newRow("35 informer: relist of unchanged pods, "+m.over+", CPU", cpuEach(s[0]), cpuEach(s[1]), better(m.less, "less CPU")))
		if m.tls {
			continue
		}
		allocated := func(of []sample) *Figure { return perOp(of, Bytes, func(s sample) float64 { return s.Bytes }) }
		rows = append(rows,
			newRow("35 informer: relist of unchanged pods, bytes allocated", allocated(s[0]), allocated(s[1]), better(50, "fewer")),
			newRow("35 informer: relist of unchanged pods, handler calls", value(s[0], Count, "calls"), value(s[1], Count, "calls"), atMost(0, Count)))
	}
	reader := job{Measure: "informer-reader", Replay: l.prepare(podStream())}
	s := l.turns(1, reader, sideClientGo, sideTarn)
	reader.Control = true
	control := l.turns(1, reader, sideTarn)[0]
	longest := func(title, name string, goals ...goal) Row {
		c, t := value(s[0], Nanoseconds, name), value(s[1], Nanoseconds, name)
		t.Note = "control " + quantity(value(control, Nanoseconds, name).Value, Nanoseconds)
		return newRow(title, c, t, goals...)
	}
	return append(rows,
		longest("35 informer: longest Get during a relist, excluding run-queue wait", "own", under(1e6, Nanoseconds)),
		longest("+ informer: longest Get during a relist, wall clock", "longest"))
}

// informerQuietRows measures the latency from server to handler on an idle informer.
func informerQuietRows(l *lab) []Row {
	s := l.turns(l.someRounds(), job{Measure: "informer-quiet"}, sideClientGo, sideTarn)
	return []Row{
		newRow("36 informer: frame to handler when quiet, p50", value(s[0], Nanoseconds, "p50"), value(s[1], Nanoseconds, "p50"), notSlower()),
		newRow("+ informer: frame to handler when quiet, p99", value(s[0], Nanoseconds, "p99"), value(s[1], Nanoseconds, "p99")),
	}
}

// informerSyncRows measures the initial sync, and the memory after it.
func informerSyncRows(l *lab) []Row {
	n := number(float64(l.objects))
	run := func(compact, drop bool, sides ...string) [][]sample {
		j := job{Measure: "informer-sync", Compact: compact, Replay: podStream()}
		j.Replay.Drop = drop
		j.Replay = l.prepare(j.Replay)
		return l.turns(1, j, sides...)
	}
	plain := run(false, false, sideClientGo, sideTarn)
	dropped := run(false, true, sideClientGo, sideTarn)
	compact := run(true, false, sideTarn)[0]
	small := run(true, true, sideTarn)[0]
	return []Row{
		newRow("37 informer: initial sync of "+n+" pods, peak RSS", value(plain[0], Bytes, "rss"), value(plain[1], Bytes, "rss"), shareOfMemory(0.6)),
		newRow("37 informer: initial sync, Tarn compact, peak RSS", value(plain[0], Bytes, "rss"), value(compact, Bytes, "rss"), shareOfMemory(0.3)),
		newRow("38 informer: live heap after sync, managedFields dropped, Tarn compact", liveEach(dropped[0]), liveEach(small), shareOfMemory(0.3)),
		newRow("+ informer: live heap after sync, managedFields dropped", liveEach(dropped[0]), liveEach(dropped[1])),
		newRow("+ informer: initial sync, CPU", cpuEach(plain[0]), cpuEach(plain[1])),
		newRow("+ informer: initial sync, Tarn compact, CPU", cpuEach(plain[0]), cpuEach(compact)),
	}
}

// informerCompactRows measures the compact form beside Tarn's decoded one, with subscribers that read
// all objects, the new ones or none.
func informerCompactRows(l *lab) []Row {
	replay := l.prepare(replay{Resource: podResource, Encoding: protobufEncoding, Way: byChurn})
	var rows []Row
	for _, m := range []struct {
		measure, title string
		goals          map[string]goal // by job.Reads
	}{
		{"informer-sync", "41 compact: initial sync, ", map[string]goal{"": costs(1.25, "the CPU"), "none": costs(0.9, "the CPU")}},
		{"informer-changes", "42 compact: watch event, ", map[string]goal{"": under(26e3, Nanoseconds), "new": {}, "none": under(14e3, Nanoseconds)}},
	} {
		run := func(compact bool, reads string) *Figure {
			return cpuEach(l.turns(l.someRounds(), job{Measure: m.measure, Replay: replay, Compact: compact, Reads: reads}, sideTarn)[0])
		}
		decoded := run(false, "")
		for _, of := range []struct{ reads, by string }{{"", "a handler"}, {"new", "a reader of the new object"}, {"none", "no reader"}} {
			g, ok := m.goals[of.reads]
			if !ok {
				continue
			}
			var goals []goal
			if g.met != nil {
				goals = append(goals, g)
			}
			rows = append(rows, beside("decoded", newRow(m.title+of.by+", CPU", decoded, run(true, of.reads), goals...)))
		}
	}
	return rows
}
