package shards

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
)

// size is how much a run does.
type size struct {
	namespaces, each int           // ConfigMaps are namespaces × each
	lasts            time.Duration // how long rounds of faults begin; there is at least one
	longest          time.Duration // of a pause or partition
	faults           int           // of a round
	touches          time.Duration // between two changes of ConfigMaps
}

func sizeOf() size {
	if *long {
		return size{namespaces: 1000, each: 20, lasts: 10 * time.Minute, longest: time.Minute, faults: 4, touches: 20 * time.Millisecond}
	}
	return size{namespaces: 200, each: 10, lasts: 0, longest: 20 * time.Second, faults: 4, touches: 20 * time.Millisecond}
}

func TestP01_P02_ReplicasShareTheKeysWhateverHappensToThem(t *testing.T) {
	for name, gate := range map[string]bool{"the server shards": true, "the server does not shard": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endure(t, gate)
		})
	}
}

func endure(t *testing.T, gate bool) {
	size := sizeOf()
	t.Logf("-seed=%d, %+v", *seed, size)
	began := time.Now()
	s := newSite(t, gate, size.namespaces, size.each, 0)
	for i := range s.replicas {
		s.start(i, task{Workers: workers, Sample: sample, Plant: *plant, Ranges: gate})
	}
	s.journal.calm(time.Now())
	s.touchFirsts()
	s.settle("after the first start")
	struck := time.Now()
	stopTouching := s.touch(size.touches)
	stream := uint64(0)
	if gate {
		stream = 1
	}
	rng := rand.New(rand.NewPCG(*seed, stream))
	var deck []fault
	kinds := map[string]int{}
	for round := 1; round == 1 || time.Since(struck) < size.lasts; round++ {
		// Every fault happens equally often.
		var now []fault
		for range size.faults {
			if len(deck) == 0 {
				deck = shuffled(rng)
			}
			now, deck = append(now, deck[0]), deck[1:]
		}
		for _, f := range now {
			kinds[f.name]++
		}
		s.strike(rng, size.longest, now)
		s.settle(fmt.Sprintf("after round %d", round))
	}
	stopTouching()
	s.settle("at the end")
	s.finish()

	v := judge(s.history())
	for _, w := range append(v.wrong, s.journal.wrong...) {
		t.Error(w)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range faults {
		fmt.Fprintf(w, "%s\t%d\n", f.name, kinds[f.name])
	}
	fmt.Fprintf(w, "processes\t%d\n", s.launched)
	fmt.Fprintf(w, "objects\t%d\n", size.namespaces*size.each)
	fmt.Fprintf(w, "changes\t%d\n", s.touched.Load())
	fmt.Fprintf(w, "keys with entries\t%d\n", v.keys)
	fmt.Fprintf(w, "reconciles that were reported\t%d\n", len(s.journal.stints))
	fmt.Fprintf(w, "entries that the server stored\t%d\n", len(s.observer.writes))
	fmt.Fprintf(w, "entries after one of another replica\t%d\n", v.moved)
	fmt.Fprintf(w, "entries that were in flight when their epoch ended\t%d\n", v.inFlight)
	fmt.Fprintf(w, "reconciles that a stall interrupted\t%d\n", v.cut)
	fmt.Fprintf(w, "assignments\t%d\n", len(s.observer.assignments))
	fmt.Fprintf(w, "longest time from the end of faults until all slots had an owner that worked\t%s\n", s.slowest.Round(time.Millisecond))
	fmt.Fprintf(w, "longest time from a change or the last membership change until the key was reconciled\t%s\n", v.slowest.Round(time.Millisecond))
	fmt.Fprintf(w, "violations\t%d\n", len(v.wrong)+len(s.journal.wrong))
	_ = w.Flush()
	t.Logf("seed %d, %s\n%s", *seed, time.Since(began).Round(time.Second), b.String())
	// Short pauses and partitions move nothing.
	if v.moved == 0 && kinds["killed"]+kinds["stopped"] > 0 || v.keys < size.namespaces {
		t.Errorf("%d keys with entries and %d entries after one of another replica: this run proves little", v.keys, v.moved)
	}
}

// settle waits until every slot is worked on and every changed key is reconciled, and checks how long the
// first took.
func (s *site) settle(when string) {
	s.t.Helper()
	s.await(when+": every slot has an owner that works", func() error {
		if covered, _ := s.journal.coverage(); covered.IsZero() {
			return errors.New("some slots have none")
		}
		return nil
	})
	covered, longest := s.journal.coverage()
	calm := s.observer.lastChange(covered)
	if calm.seen.Before(s.journal.since) {
		calm = change{s.journal.since, "the end of the faults"}
	}
	took := covered.Sub(calm.seen)
	s.slowest = max(s.slowest, covered.Sub(s.journal.since))
	limit := bound + longest + s.journal.stalledIn(calm.seen, covered)
	if took > limit {
		s.t.Errorf("%s: it took %v after the last membership change until every slot had an owner that works; the bound is %v", when, took, limit)
	}
	resume := s.pauseTouching()
	defer resume()
	s.await(when+": every changed key is reconciled", func() error {
		if keys := s.observer.unfinished(); len(keys) > 0 {
			return fmt.Errorf("%d are not, such as %s", len(keys), keys[:min(len(keys), 5)])
		}
		return nil
	})
	s.t.Logf("%s %s: all slots have owners after %s, which is %s after the last membership change (%s); all keys are reconciled after %s",
		stamp(time.Now()), when, covered.Sub(s.journal.since).Round(time.Millisecond), took.Round(time.Millisecond), calm.text,
		time.Since(s.journal.since).Round(time.Millisecond))
}

// await waits until a check returns nil, and fails the test if a replica has ended by itself.
func (s *site) await(what string, check func() error) {
	s.t.Helper()
	const limit = 5 * time.Minute // 1,000 keys on a busy machine
	err := patience.ForUpTo(s.t.Context(), limit, what, func() error {
		s.alive()
		return check()
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
