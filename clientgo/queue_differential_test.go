package clientgo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/internal/soak"
)

// ledger is a metrics provider that notes everything.
type ledger struct {
	mu                  sync.Mutex // guards everything below
	depth, adds, tries  int
	latency, work       []float64
	unfinished, longest []float64
}

type (
	ledgerGauge   struct{ l *ledger }
	ledgerCounter struct {
		l *ledger
		n *int
	}
	ledgerSeries struct {
		l *ledger
		s *[]float64
	}
)

func (g ledgerGauge) Inc()   { g.l.mu.Lock(); g.l.depth++; g.l.mu.Unlock() }
func (g ledgerGauge) Dec()   { g.l.mu.Lock(); g.l.depth--; g.l.mu.Unlock() }
func (c ledgerCounter) Inc() { c.l.mu.Lock(); *c.n++; c.l.mu.Unlock() }
func (s ledgerSeries) Set(v float64) {
	s.l.mu.Lock()
	*s.s = append(*s.s, v)
	s.l.mu.Unlock()
}
func (s ledgerSeries) Observe(v float64) { s.Set(v) }

func (l *ledger) NewDepthMetric(string) workqueue.GaugeMetric     { return ledgerGauge{l} }
func (l *ledger) NewAddsMetric(string) workqueue.CounterMetric    { return ledgerCounter{l, &l.adds} }
func (l *ledger) NewRetriesMetric(string) workqueue.CounterMetric { return ledgerCounter{l, &l.tries} }
func (l *ledger) NewLatencyMetric(string) workqueue.HistogramMetric {
	return ledgerSeries{l, &l.latency}
}
func (l *ledger) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return ledgerSeries{l, &l.work}
}
func (l *ledger) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return ledgerSeries{l, &l.unfinished}
}
func (l *ledger) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return ledgerSeries{l, &l.longest}
}

// ticket is a blocking call under way.
type ticket struct {
	over     bool
	item     int
	shutdown bool
}

// side is one of the two queues and what the test knows of it.
type side struct {
	q       workqueue.TypedInterface[int]
	layer   layer
	ledger  *ledger
	get     *ticket
	drain   *ticket
	running []int
}

func (s *side) settleGet(log *strings.Builder) {
	if s.get == nil || !s.get.over {
		return
	}
	fmt.Fprintf(log, " got %d,%v", s.get.item, s.get.shutdown)
	if !s.get.shutdown {
		s.running = append(s.running, s.get.item)
	}
	s.get = nil
}

// state is all that can be seen of a queue from outside. The bubble must be at rest.
func (s *side) state() string {
	var b strings.Builder
	s.settleGet(&b)
	if s.drain != nil && s.drain.over {
		b.WriteString(" drained")
		s.drain = nil
	}
	fmt.Fprintf(&b, " len %d shutting down %v get waits %v drain waits %v running %v",
		s.q.Len(), s.q.ShuttingDown(), s.get != nil, s.drain != nil, s.running)
	if rl, ok := s.q.(workqueue.TypedRateLimitingInterface[int]); ok && s.layer >= limiting {
		for i := range keys {
			fmt.Fprintf(&b, " %d", rl.NumRequeues(i))
		}
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	fmt.Fprintf(&b, " depth %d adds %d retries %d", s.ledger.depth, s.ledger.adds, s.ledger.tries)
	return b.String()
}

const (
	keys = 6
	// grid is the distance of the moments at which anything is done. Due times are a
	// little after them, each its own, so that no two are equal: of those client-go
	// promises no order. Ours come up to four milliseconds late, which is difference DQ1.
	grid = 10 * time.Millisecond
)

// layer is which kind of queue a run is about.
type layer int

const (
	plain layer = iota
	delaying
	limiting
	prioritised // a queue with priorities, all of which are 0
)

func (l layer) String() string {
	return [...]string{"plain", "delaying", "rate-limiting", "prioritised"}[l]
}

func makeSides(l layer, limiter func() workqueue.TypedRateLimiter[int]) [2]*side {
	theirs, ours := &ledger{}, &ledger{}
	var a, b workqueue.TypedInterface[int]
	switch l {
	case plain:
		a = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: theirs})
		b = clientgo.NewTypedQueueWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: ours})
	case delaying:
		a = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: theirs})
		b = clientgo.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: ours})
	case limiting:
		a = workqueue.NewTypedRateLimitingQueueWithConfig(limiter(), workqueue.TypedRateLimitingQueueConfig[int]{Name: "q", MetricsProvider: theirs})
		b = clientgo.NewTypedRateLimitingQueueWithConfig(limiter(), workqueue.TypedRateLimitingQueueConfig[int]{Name: "q", MetricsProvider: ours})
	case prioritised: // they have no name, so there are no metrics to compare
		a = workqueue.NewTypedRateLimitingQueue(limiter())
		b = clientgo.NewPriorityQueue[int, addOpts]("", limiter())
	}
	return [2]*side{{q: a, layer: l, ledger: theirs}, {q: b, layer: l, ledger: ours}}
}

// steps is a limiter whose delays are on the grid, and no two of which are equal.
type steps struct {
	mu    sync.Mutex // guards everything below
	asked int
	n     map[int]int
}

func (l *steps) When(item int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	l.n[item]++
	return time.Duration(l.n[item])*grid + time.Duration(l.asked)*time.Microsecond/2
}

func (l *steps) Forget(item int) { l.mu.Lock(); delete(l.n, item); l.mu.Unlock() }
func (l *steps) NumRequeues(item int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[item]
}

// compare drives both queues through the same random calls and compares what can be seen
// after each. The list of what it leaves out is DQ1 to DQ5 of docs/migrating.md, each with a
// test of its own.
func compare(t *testing.T, l layer, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(l)))
	sides := makeSides(l, func() workqueue.TypedRateLimiter[int] { return &steps{n: map[int]int{}} })
	defer func() {
		for _, s := range sides {
			s.q.ShutDown() // also after a failure
		}
	}()
	var history []string
	down := false
	for step := range 120 {
		item, unique := r.IntN(keys), time.Duration(step+1)*time.Microsecond
		delay := time.Duration(r.IntN(6)-1)*grid + unique
		var op string
		var do func(*side)
		switch n := r.IntN(100); {
		case n < 30:
			op, do = fmt.Sprintf("add %d", item), func(s *side) { s.q.Add(item) }
		case n < 50:
			op, do = "get", func(s *side) {
				if s.get != nil {
					return
				}
				ticket := &ticket{}
				s.get = ticket
				go func() {
					ticket.item, ticket.shutdown = s.q.Get()
					ticket.over = true
				}()
			}
		case n < 70:
			op, do = "done", func(s *side) {
				if len(s.running) > 0 {
					i := step % len(s.running)
					item := s.running[i]
					s.running = slices.Delete(s.running, i, i+1)
					s.q.Done(item)
				}
			}
		case n < 80:
			op, do = fmt.Sprintf("add %d after %v", item, delay), func(s *side) {
				if q, ok := s.q.(workqueue.TypedDelayingInterface[int]); ok && l >= delaying {
					q.AddAfter(item, delay)
				}
			}
		case n < 86:
			op, do = fmt.Sprintf("add %d rate-limited", item), func(s *side) {
				if q, ok := s.q.(workqueue.TypedRateLimitingInterface[int]); ok && l >= limiting {
					q.AddRateLimited(item)
				}
			}
		case n < 88:
			op, do = fmt.Sprintf("forget %d", item), func(s *side) {
				if q, ok := s.q.(workqueue.TypedRateLimitingInterface[int]); ok && l >= limiting {
					q.Forget(item)
				}
			}
		case n < 97 || step < 60:
			op, do = "wait", func(*side) {}
			<-time.After(time.Duration(1+r.IntN(60)) * grid)
		case n < 98:
			op, do = "drain", func(s *side) {
				if s.drain != nil {
					return
				}
				ticket := &ticket{}
				s.drain = ticket
				go func() { s.q.ShutDownWithDrain(); ticket.over = true }()
			}
			down = true
		default:
			if down && l > plain {
				continue // difference DQ3
			}
			op, do = "shut down", func(s *side) { s.q.ShutDown() }
			down = true
		}
		var states [2]string
		for i, s := range sides {
			do(s)
			synctest.Wait()
			states[i] = s.state()
		}
		history = append(history, fmt.Sprintf("%-24s%s", op, states[1]))
		if states[0] != states[1] {
			t.Fatalf("seed %d of %v, step %d: %s\nclient-go:%s\ntarn:     %s\n%s", seed, l, step, op, states[0], states[1], strings.Join(history, "\n"))
		}
	}
	finish(t, l, seed, sides)
}

// finish ends both and compares their metrics.
func finish(t *testing.T, l layer, seed uint64, sides [2]*side) {
	for _, s := range sides {
		s.q.ShutDown()
		synctest.Wait()
		s.state()
		for _, item := range s.running {
			s.q.Done(item)
		}
		for item, over := s.q.Get(); !over; item, over = s.q.Get() {
			s.q.Done(item)
		}
	}
	theirs, ours := sides[0].ledger, sides[1].ledger
	for _, l := range []*ledger{theirs, ours} {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	if !near(theirs.latency, ours.latency, l) || !near(theirs.work, ours.work, l) ||
		!near(theirs.longest, ours.longest, l) || !near(theirs.unfinished, ours.unfinished, l) {
		t.Errorf("seed %d of %v:\nclient-go: %v\ntarn:      %v", seed, l, theirs, ours)
	}
	if theirs.depth != ours.depth || theirs.adds != ours.adds || theirs.tries != ours.tries {
		t.Errorf("seed %d of %v: depth, adds, retries: client-go %d, %d, %d; tarn %d, %d, %d", seed, l,
			theirs.depth, theirs.adds, theirs.tries, ours.depth, ours.adds, ours.tries)
	}
}

// near reports whether two series of seconds are the same, except for the time by which ours
// may let a delayed item wait later (DQ1) and for the sum's rounding.
func near(a, b []float64, l layer) bool {
	slack := 1e-6
	if l > plain {
		slack = 0.005 * keys
	}
	return slices.EqualFunc(a, b, func(a, b float64) bool { return a-b < slack && b-a < slack })
}

func TestQueuesBehaveAsClientGosDo(t *testing.T) {
	for l := range prioritised + 1 {
		t.Run(l.String(), func(t *testing.T) {
			for seed := range uint64(soak.Rounds(100)) {
				synctest.Test(t, func(t *testing.T) { compare(t, l, seed) })
				if t.Failed() {
					return
				}
			}
		})
	}
}
