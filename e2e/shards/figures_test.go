package shards

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
)

// Every reconcile waits 10 ms and changes nothing, as one does that waits for another system. Each replica has
// four workers, so it can do 400 reconciles per second.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("it measures; run it with -figures")
	}
	s := newSite(t, false, 200, 10, 0)
	s.journal.keep = true
	spin := task{Workers: 4, Spin: 10 * time.Millisecond, Sample: 10 * time.Millisecond}
	var b strings.Builder
	fmt.Fprintf(&b, "| replicas | reconciles/s | ratio |\n|---|---|---|\n")
	one := 0.0
	for n := range 4 {
		s.start(n, spin)
		if s.rest(n + 1); n == 2 {
			continue
		}
		rate := s.rate(20*time.Second, func(l line) int64 { return l.Reconciles })
		if n == 0 {
			one = sum(rate)
		}
		fmt.Fprintf(&b, "| %d | %.0f | %.2f |\n", n+1, sum(rate), sum(rate)/one)
	}
	requests := s.rate(time.Minute, func(l line) int64 { return l.Requests })
	fmt.Fprintf(&b, "\nmembership requests of each of 4 replicas, per minute, when nothing changes: %.0f\n\n", perMinute(requests))
	if busiest := slices.Max(requests); busiest >= 1 {
		t.Errorf("a replica sends %.1f requests per second for its membership", busiest)
	}

	fmt.Fprintf(&b, "| event | slots that moved | keys that moved | without an owner, median | without an owner, longest | requests of the busiest replica |\n|---|---|---|---|---|---|\n")
	event := func(name string, replicas int, do func()) {
		before, began := s.owners(), time.Now()
		do()
		s.rest(replicas)
		fmt.Fprintf(&b, "| %s | %s |\n", name, s.moves(before, began))
	}
	event("a fifth replica joins", 5, func() { s.start(4, spin) })
	event("one of five stops (SIGTERM)", 4, func() { s.check(s.replicas[4].end(syscall.SIGTERM)) })
	event("a fifth replica joins", 5, func() { s.start(4, spin) })
	event("one of five is killed", 4, func() { s.check(s.replicas[4].end(syscall.SIGKILL)) })
	t.Logf("2,000 keys in 200 namespaces\n%s", b.String())
}

// TestFiguresOfRanges measures what the mirrors of each replica of a group cost until they are synced: 20,000
// ConfigMaps of 4 kB in 1,000 namespaces. Every replica is a process, whose resources the kernel counts.
func TestFiguresOfRanges(t *testing.T) {
	if !*figures {
		t.Skip("it measures; run it with -figures")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| group | replica | slots | objects | received | CPU | peak RSS |\n|---|---|---|---|---|---|---|\n")
	for _, c := range []struct {
		name         string
		gate, ranges bool
		replicas     int
	}{
		{"one, everything", false, false, 1},
		{"five, everything", false, false, 5},
		{"five with Ranges, the server does not shard", false, true, 5},
		{"five with Ranges, the server shards", true, true, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.gate, 1000, 20, 4000)
			for i := range c.replicas {
				s.start(i, task{Workers: workers, Sample: time.Second, Ranges: c.ranges})
			}
			s.rest(c.replicas)
			owners := s.owners()
			for i := range c.replicas {
				r := s.replicas[i]
				received := r.link.Counts().Received
				s.check(r.end(syscall.SIGKILL)) // before the others can take its slots
				used := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
				cpu := r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
				slots, objects := share(owners, r.process, s.keys, c.ranges)
				fmt.Fprintf(&b, "| %s | %d | %d | %d | %.1f MB | %s | %.1f MB |\n", c.name, i+1, slots, objects,
					float64(received)/1e6, cpu.Round(time.Millisecond), float64(used.Maxrss)*1024/1e6)
			}
		})
	}
	t.Logf("until synced and at rest for a lease duration\n%s", b.String())
}

// share returns how many slots a process has, and how many keys they have.
func share(owners [shard.Slots]*process, p *process, keys []types.NamespacedName, ranges bool) (slots, objects int) {
	by := shard.ByNamespace
	if ranges {
		by = shard.ByRange
	}
	has := map[string]bool{}
	for slot, owner := range owners {
		if owner == p {
			has[shard.Slot(slot).String()] = true
		}
	}
	for _, key := range keys {
		if has[by(object.Key(key))] {
			objects++
		}
	}
	return len(has), objects
}

func sum(rates []float64) (total float64) {
	for _, r := range rates {
		total += r
	}
	return total
}

func perMinute(rates []float64) (all []float64) {
	for _, r := range rates {
		all = append(all, r*60)
	}
	return all
}

// owners returns the process that works on each slot.
func (s *site) owners() (all [shard.Slots]*process) {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	for p, l := range s.journal.latest {
		for _, slot := range l.Slots {
			all[slot] = p
		}
	}
	return all
}

// rest waits until all slots are worked on by so many replicas, and none has moved for a while.
func (s *site) rest(replicas int) {
	s.t.Helper()
	var last [shard.Slots]*process
	unmoved := time.Now()
	s.await(fmt.Sprintf("%d replicas share the slots", replicas), func() error {
		now, working := s.owners(), map[*process]bool{}
		for _, p := range now {
			working[p] = true
		}
		if now != last {
			last, unmoved = now, time.Now()
		}
		if len(working) != replicas || working[nil] || time.Since(unmoved) < lease {
			return errors.New("slots are moving")
		}
		return nil
	})
}

// rate returns the rate per second of a count of each running replica.
func (s *site) rate(during time.Duration, count func(line) int64) (all []float64) {
	from := time.Now()
	patience.Linger(s.t.Context(), during)
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	for p := range s.journal.latest {
		lines := since(s.journal.statuses[p], from)
		first, last := lines[0], lines[len(lines)-1]
		all = append(all, float64(count(last)-count(first))/last.At.Sub(first.At).Seconds())
	}
	return all
}

// since returns the lines from a time on.
func since(lines []line, from time.Time) []line {
	for len(lines) > 0 && lines[0].At.Before(from) {
		lines = lines[1:]
	}
	return lines
}

// moves returns a row of a table: what has moved since a time, and for how long it had no owner.
func (s *site) moves(before [shard.Slots]*process, from time.Time) string {
	after := s.owners()
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	has := func(l line, slot int) bool { return slices.Contains(l.Slots, shard.Slot(slot)) }
	var gaps []time.Duration
	keys := 0
	for slot, p := range after {
		if p == before[slot] {
			continue
		}
		lost, gained := from, time.Time{}
		for _, l := range since(s.journal.statuses[before[slot]], from) {
			if !has(l, slot) {
				lost = l.At
				break
			}
		}
		for _, l := range since(s.journal.statuses[p], from) {
			if has(l, slot) {
				gained = l.At
				break
			}
		}
		gaps = append(gaps, max(0, gained.Sub(lost)))
		for _, key := range s.keys {
			if shard.ByNamespace(object.Key(key)) == shard.Slot(slot).String() {
				keys++
			}
		}
	}
	busiest, during := int64(0), time.Duration(0)
	for _, lines := range s.journal.statuses {
		if lines = since(lines, from); len(lines) == 0 {
			continue // it ended before
		}
		first, last := lines[0], lines[len(lines)-1]
		busiest, during = max(busiest, last.Requests-first.Requests), max(during, last.At.Sub(first.At))
	}
	slices.Sort(gaps)
	return fmt.Sprintf("%d of %d | %d of %d | %s | %s | %d in %s", len(gaps), shard.Slots, keys, len(s.keys),
		gaps[len(gaps)/2].Round(10*time.Millisecond), gaps[len(gaps)-1].Round(10*time.Millisecond), busiest, during.Round(time.Second))
}
