package main

import "fmt"

// queueAlone measures Add, Get and Done of the only item in the queue.
func queueAlone(l *lab) []Row {
	s := l.turns(l.rounds, job{Measure: "queue-alone"}, sideClientGo, sideTarn, sideRuntime)
	c, t, r := leastCPU(s[0]), leastCPU(s[1]), leastCPU(s[2])
	return []Row{
		newRow("14 queue: Add, Get, Done, one goroutine", c, t, faster(1.5), noAllocs()),
		beside(sideRuntime, newRow("+ queue: Add, Get, Done, one goroutine", r, t)),
	}
}

// queueContention measures the throughput with many producers and consumers.
func queueContention(l *lab) []Row {
	s := l.turns(l.rounds, job{Measure: "queue-contention"}, sideClientGo, sideTarn, sideRuntime)
	figures := make([]*Figure, len(s))
	for i := range s {
		figures[i] = perOp(s[i], Nanoseconds, func(s sample) float64 { return s.Wall })
		figures[i].Note = fmt.Sprintf("%s items/s", number(1e9/figures[i].Value))
	}
	c, t, r := figures[0], figures[1], figures[2]
	return []Row{
		newRow("15 queue: 8 producers, 8 consumers, wall clock", c, t, better(2, "the items")),
		beside(sideRuntime, newRow("+ queue: 8 producers, 8 consumers, wall clock", r, t)),
		newRow("+ queue: 8 producers, 8 consumers, CPU", cpuEach(s[0]), cpuEach(s[1])),
	}
}

// queueDelays measures AddAfter with random delays until all items are taken.
func queueDelays(l *lab) []Row {
	s := l.turns(min(l.rounds, 5), job{Measure: "queue-delays"}, sideClientGo, sideTarn, sideRuntime)
	c, t, r := cpuEach(s[0]), cpuEach(s[1]), cpuEach(s[2])
	what := fmt.Sprintf("AddAfter of %s random delays until drained, CPU", number(float64(l.objects)))
	return []Row{
		newRow("16 queue: "+what, c, t, better(3, "less CPU"), fewerAllocs()),
		beside(sideRuntime, newRow("+ queue: "+what, r, t)),
	}
}

// queueLimited measures an item that fails once.
func queueLimited(l *lab) []Row {
	s := l.turns(l.rounds, job{Measure: "queue-limited"}, sideClientGo, sideTarn, sideRuntime)
	c, t, r := cpuEach(s[0]), cpuEach(s[1]), cpuEach(s[2])
	const what = "AddRateLimited, Get, Done, Forget, CPU"
	return []Row{
		newRow("17 queue: "+what, c, t, better(2, "less CPU")),
		beside(sideRuntime, newRow("+ queue: "+what, r, t)),
	}
}

// queuePriorities measures Add, Get and Done with priorities.
func queuePriorities(l *lab) []Row {
	s := l.turns(l.rounds, job{Measure: "queue-priority"}, sideRuntime, sideTarn)
	alone := newRow("18 queue: Add, Get, Done with three priorities", leastCPU(s[0]), leastCPU(s[1]), faster(8))
	s = l.turns(l.rounds, job{Measure: "queue-backlog"}, sideRuntime, sideTarn)
	backlog := newRow("+ queue: three priorities, 10,000 other items waiting", leastCPU(s[0]), leastCPU(s[1]))
	return []Row{beside(sideRuntime, alone), beside(sideRuntime, backlog)}
}

// queueMemory measures the memory of waiting and delayed items.
func queueMemory(l *lab) []Row {
	var rows []Row
	for _, m := range []struct{ measure, what string }{
		{"queue-memory", "memory per waiting item"},
		{"queue-delayed", "memory per delayed item"},
	} {
		s := l.turns(min(l.rounds, 3), job{Measure: m.measure}, sideClientGo, sideTarn, sideRuntime)
		c, t, r := liveEach(s[0]), liveEach(s[1]), liveEach(s[2])
		rows = append(rows,
			newRow("19 queue: "+m.what, c, t, shareOfMemory(0.6)),
			beside(sideRuntime, newRow("+ queue: "+m.what, r, t)))
	}
	return rows
}
