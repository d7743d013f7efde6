package main

import "fmt"

// received makes both sides receive the same response in turn and returns their samples, which
// are kept for measures that reuse them.
func (l *lab) received(r replay, rounds int) (clientGo, tarn []sample) {
	s := l.receivedBy(r, rounds, sideClientGo, sideTarn)
	return s[0], s[1]
}

func (l *lab) receivedBy(r replay, rounds int, sides ...string) [][]sample {
	j := job{Measure: "receive", Replay: r}
	name := func(side string) string { return j.name() + " " + side }
	known := make([][]sample, len(sides))
	all := true
	for i, side := range sides {
		known[i] = l.samples[name(side)]
		all = all && known[i] != nil
	}
	if all {
		return known
	}
	j.Replay = l.prepare(r)
	samples := l.turns(rounds, j, sides...)
	if l.samples == nil {
		l.samples = map[string][]sample{}
	}
	for i, side := range sides {
		l.samples[name(side)] = samples[i]
	}
	return samples
}

// inTotal returns the figure of CPU time and allocations of all objects together.
func inTotal(samples []sample) *Figure {
	f := cpuEach(samples)
	ops := samples[0].Ops
	f.Value *= ops
	for i := range f.Rounds {
		f.Rounds[i] *= ops
	}
	f.Allocs, f.Bytes = f.Allocs*ops, f.Bytes*ops
	return f
}

// Numbers of rounds of lists and events, where one may take up to a minute.
func (l *lab) someRounds() int { return min(l.rounds, 3) }
func (l *lab) fewRounds() int  { return min(l.rounds, 2) }

// listProtobuf measures lists of all pods in protobuf.
func listProtobuf(l *lab) []Row {
	pods := func(w way, more ...func(*replay)) replay {
		r := replay{Resource: podResource, Encoding: protobufEncoding, Way: w}
		for _, m := range more {
			m(&r)
		}
		return r
	}
	drop := func(r *replay) { r.Drop = true }
	secure := func(r *replay) { r.TLS = true }
	n := number(float64(l.objects))
	var rows []Row
	row := func(title string, r replay, goals ...goal) (c, t []sample) {
		rounds := l.someRounds()
		if len(goals) == 0 {
			rounds = 1
		}
		c, t = l.received(r, rounds)
		rows = append(rows, newRow(title, inTotal(c), inTotal(t), goals...))
		return c, t
	}
	c, t := row("20 LIST of "+n+" pods, protobuf, CPU", pods(byList), better(2, "less CPU"))
	rows = append(rows,
		newRow("26 allocations per pod decoded", allocsEach(c), allocsEach(t), better(3, "fewer")),
		newRow("25 live bytes beyond the objects, LIST, protobuf", beyond(c), beyond(t), under(16<<20, Bytes)),
		newRow("27 live heap per decoded pod", liveEach(c), liveEach(t), shareOfMemory(0.7)))
	row("21 LIST, protobuf, managedFields dropped, CPU", pods(byList, drop), better(2.5, "less CPU"))
	row("+ LIST, protobuf, HTTP/2 over TLS, CPU", pods(byList, secure))
	row("+ LIST, protobuf, pages of 500, CPU", pods(byPages))
	c, t = row("20 streaming list of "+n+" pods, protobuf, CPU", pods(byStream), better(3.5, "less CPU"))
	rows = append(rows, newRow("25 live bytes beyond the objects, streaming list, protobuf", beyond(c), beyond(t), under(16<<20, Bytes)))
	row("21 streaming list, protobuf, managedFields dropped, CPU", pods(byStream, drop), better(2.5, "less CPU"))
	row("+ streaming list, protobuf, HTTP/2 over TLS, CPU", pods(byStream, secure))
	return rows
}

// listJSON measures lists of all pods in JSON.
func listJSON(l *lab) []Row {
	n := number(float64(l.objects))
	c, t := l.received(replay{Resource: podResource, Encoding: jsonEncoding, Way: byList}, l.fewRounds())
	rows := []Row{
		newRow("22 LIST of "+n+" pods, JSON, CPU", inTotal(c), inTotal(t), better(3, "less CPU")),
		newRow("25 live bytes beyond the objects, LIST, JSON", beyond(c), beyond(t), under(16<<20, Bytes)),
		newRow("27 live heap per pod decoded from JSON", liveEach(c), liveEach(t), shareOfMemory(0.7)),
	}
	c, t = l.received(replay{Resource: podResource, Encoding: jsonEncoding, Way: byStream}, 1)
	return append(rows,
		newRow("22 streaming list of "+n+" pods, JSON, CPU", inTotal(c), inTotal(t), better(6, "less CPU")))
}

// listCustom measures lists of custom resources.
func listCustom(l *lab) []Row {
	list := replay{Resource: releaseResource, Encoding: jsonEncoding, Way: byList}
	n := number(float64(list.objects(l.objects)))
	c, t := l.received(list, l.fewRounds())
	rows := []Row{
		newRow("23 LIST of "+n+" unstructured objects of 2 kB, CPU", inTotal(c), inTotal(t), better(4, "less CPU")),
		newRow("25 live bytes beyond the objects, LIST, unstructured", beyond(c), beyond(t), under(16<<20, Bytes)),
		newRow("28 live heap per unstructured object", liveEach(c), liveEach(t), shareOfMemory(0.6)),
	}
	list.Way = byStream
	c, t = l.received(list, l.fewRounds())
	rows = append(rows,
		newRow("23 streaming list of "+n+" unstructured objects, CPU", inTotal(c), inTotal(t), better(4, "less CPU")))
	list.Typed = true
	for _, m := range []struct {
		way  way
		what string
	}{{byList, "LIST"}, {byStream, "streaming list"}} {
		list.Way = m.way
		c, t = l.received(list, l.fewRounds())
		rows = append(rows, newRow("39 "+m.what+" of "+n+" custom resources as Go structs, CPU", inTotal(c), inTotal(t), better(4, "less CPU")))
	}
	return rows
}

// listHeld measures lists whose items the receiver already holds, over plain HTTP. client-go
// decodes them anyway, so its figures are those of the other measures.
func listHeld(l *lab) []Row {
	var rows []Row
	for _, m := range []struct {
		what string
		of   replay
	}{
		{"LIST, protobuf", replay{Resource: podResource, Encoding: protobufEncoding, Way: byList}},
		{"streaming list, protobuf", replay{Resource: podResource, Encoding: protobufEncoding, Way: byStream}},
		{"LIST, JSON", replay{Resource: podResource, Encoding: jsonEncoding, Way: byList}},
		{"LIST, unstructured", replay{Resource: releaseResource, Encoding: jsonEncoding, Way: byList}},
	} {
		c := l.receivedBy(m.of, l.fewRounds(), sideClientGo)[0]
		m.of.Held = true
		t := l.receivedBy(m.of, l.someRounds(), sideTarn)[0]
		if !c[0].same(t[0]) {
			fail("%s: the held objects differ from those of the list", m.what)
		}
		rows = append(rows, newRow("24 "+m.what+", every item held, CPU", inTotal(c), inTotal(t), better(20, "less CPU")))
	}
	return rows
}

// watchEvents measures a watch of changes, per event.
func watchEvents(l *lab) []Row {
	var rows []Row
	for _, m := range []struct {
		number, encoding string
		rounds           int
		decoded, peek    float64
	}{
		{"29", protobufEncoding, l.fewRounds(), 2.5, 10},
		{"30", jsonEncoding, 1, 4, 20},
	} {
		r := replay{Resource: podResource, Encoding: m.encoding, Way: byEvents}
		c, t := l.received(r, m.rounds)
		rows = append(rows, newRow(fmt.Sprintf("%s watch event of a pod, %s, decoded, CPU", m.number, m.encoding),
			cpuEach(c), cpuEach(t), better(m.decoded, "less CPU")))
		r.Held = true
		p := l.receivedBy(r, l.fewRounds(), sideTarn)[0]
		if !c[0].same(p[0]) {
			fail("%s: the peeked events differ from the decoded ones", m.encoding)
		}
		rows = append(rows, newRow(fmt.Sprintf("%s watch event of a pod, %s, client-go decoded, Tarn peeked, CPU", m.number, m.encoding),
			cpuEach(c), cpuEach(p), better(m.peek, "less CPU")))
	}
	return rows
}

// allocsEach returns the figure of allocations per object.
func allocsEach(samples []sample) *Figure {
	return perOp(samples, Count, func(s sample) float64 { return s.Allocs })
}

// beyond returns the figure of the largest live heap beyond the objects.
func beyond(samples []sample) *Figure {
	return perOp(samples, Bytes, func(s sample) float64 { return s.Beyond * s.Ops })
}
