package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = object.Key{Namespace: "default", Name: "web"}

// ledger records who works on which slot, and fails the test if two members do.
type ledger struct {
	t *testing.T

	mu     sync.Mutex
	owners map[string]*replica
	starts int
	wrote  object.Version           // what all members write; empty: nothing
	hung   map[string]chan struct{} // until when the work on a slot does not end
	slow   time.Duration            // how much longer than that of the slot before it the work on a slot takes to end
}

// recorder is what a fence of a group also is.
type recorder interface {
	Wrote(cache string, key object.Key, at object.Mark)
}

func newClient(t *testing.T, server *apiserver.Server) *wire.Client {
	t.Helper()
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (l *ledger) begin(r *replica, slot string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.owners[slot]; other != nil {
		l.t.Errorf("%v: %s works on slot %s while %s does", time.Now(), r.name, slot, other.name)
	}
	l.owners[slot] = r
	l.starts++
}

func (l *ledger) end(r *replica, slot string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners[slot] == r {
		delete(l.owners, slot)
	}
}

func (l *ledger) worked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owners)
}

// replica is a process of the group. While its fence is open, it is in the ledger.
type replica struct {
	*shard.Group
	name string
	link *simtest.LeaseLink
	stop func() error
}

func join(t *testing.T, server *apiserver.Server, l *ledger, name string, drain time.Duration, opts shard.Options) *replica {
	t.Helper()
	r := &replica{name: name, link: simtest.NewLeaseLink(server.MemoryConfig(), name)}
	opts.Member = name
	g, err := shard.New(r.link.Client(server.MemoryConfig()), web, opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Group = g
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- g.Run(ctx, func(ctx context.Context, slot string, fence controller.Fence) error {
			if fence.Check() != nil {
				return nil
			}
			l.begin(r, slot)
			if l.wrote != "" {
				fence.(recorder).Wrote("maps", object.Key{}, object.Mark{Version: l.wrote})
			}
			// A reconcile looks at its fence before each write; here, in some slots every half
			// second.
			for open := true; open && ctx.Err() == nil; {
				var write <-chan time.Time
				if len(slot) == 1 {
					write = time.After(500 * time.Millisecond)
				}
				select {
				case <-ctx.Done():
				case <-fence.Lost():
				case <-write:
				}
				open = fence.Check() == nil
			}
			n, _ := strconv.Atoi(slot)
			for end := time.Now().Add(drain + time.Duration(n)*l.slow); time.Now().Before(end) && fence.Check() == nil; {
				<-time.After(100 * time.Millisecond)
			}
			if end := l.hung[slot]; end != nil {
				<-end
			}
			l.end(r, slot)
			return nil
		})
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return r
}

func newLedger(t *testing.T) *ledger { return &ledger{t: t, owners: map[string]*replica{}} }

func (l *ledger) expect(slots int) {
	l.t.Helper()
	if got := l.worked(); got != slots {
		l.t.Errorf("%d of %d slots are worked on", got, slots)
	}
}

func TestP02_AGroupOfOneWorksOnAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		r := join(t, server, l, "a", 0, shard.Options{})
		<-time.After(30 * time.Second)
		l.expect(shard.Slots)
		if s := r.Status(); !s.Active || len(s.Slots) != shard.Slots || len(s.Members) != 1 {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestP04_AMemberThatJoinsOrLeavesMovesItsShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		for _, name := range []string{"a", "b", "c"} {
			join(t, server, l, name, time.Second, shard.Options{})
		}
		<-time.After(time.Minute)
		l.expect(shard.Slots)

		before := l.starts
		d := join(t, server, l, "d", time.Second, shard.Options{})
		<-time.After(20 * time.Second)
		l.expect(shard.Slots)
		share := len(d.Status().Slots)
		if moved := l.starts - before; moved != share || share == 0 {
			t.Errorf("%d slots moved when a member joined that has %d", moved, share)
		}

		before = l.starts
		began := time.Now()
		if err := d.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 15*time.Second { // virtual
			t.Errorf("leaving took %v; it waited for its lease to expire", took)
		}
		<-time.After(2 * time.Second)
		l.expect(shard.Slots)
		if moved := l.starts - before; moved != share {
			t.Errorf("%d slots moved when a member left that had %d", moved, share)
		}
	})
}

func TestP03_TheSlotsOfACrashedMemberAreTakenOverAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		a := join(t, server, l, "a", 0, shard.Options{})
		join(t, server, l, "b", 0, shard.Options{})
		<-time.After(time.Minute)
		a.link.Set(true, 0)
		<-time.After(11 * time.Second)
		if a.Status().Active {
			t.Error("a member without a connection is still active")
		}
		<-time.After(30 * time.Second)
		l.expect(shard.Slots)
		if n := len(a.Status().Slots); n > 0 {
			t.Errorf("a member without a connection works on %d slots", n)
		}
		a.link.Set(false, 0)
		<-time.After(30 * time.Second)
		l.expect(shard.Slots)
		if n := len(a.Status().Slots); n == 0 {
			t.Error("a member that came back got no slots")
		}
	})
}

// outage interrupts the links of all replicas for a time. It returns the slots that each one had before.
func outage(server *apiserver.Server, all []*replica, lasts time.Duration) map[*replica][]shard.Slot {
	had := map[*replica][]shard.Slot{}
	for _, r := range all {
		had[r] = r.Status().Slots
		r.link.Set(true, 0)
	}
	server.Cut("leases")
	<-time.After(lasts)
	for _, r := range all {
		r.link.Set(false, 0)
	}
	return had
}

// After an outage of the API server one member is the first to be back. It must not take the others for
// crashed, and those that begin a new term get their slots again.
func TestP04_NoSlotMovesWhenAllMembersAreBackAfterAnOutage(t *testing.T) {
	for _, lasts := range []time.Duration{12 * time.Second, time.Minute, 20 * time.Minute} {
		t.Run(lasts.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
				var all []*replica
				for i := range 5 {
					all = append(all, join(t, server, l, fmt.Sprint("r", i), 0, shard.Options{}))
					<-time.After(time.Duration(i) * 700 * time.Millisecond)
				}
				<-time.After(time.Minute)
				had := outage(server, all, lasts)
				for range 150 { // 15 seconds
					<-time.After(100 * time.Millisecond)
					for _, r := range all {
						for _, slot := range r.Status().Slots {
							if !slices.Contains(had[r], slot) {
								t.Fatalf("%s works on slot %d, which was another member's before the outage", r.name, slot)
							}
						}
					}
				}
				l.expect(shard.Slots)
			})
		})
	}
}

// The slots of a member that crashed during an outage are taken over a lease duration after the outage.
func TestP02_ACrashDuringAnOutageIsNoticedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		var all []*replica
		for i := range 3 {
			all = append(all, join(t, server, l, fmt.Sprint("r", i), 0, shard.Options{}))
		}
		<-time.After(time.Minute)
		outage(server, all, time.Minute)
		all[0].link.Set(true, 0)
		<-time.After(25 * time.Second)
		l.expect(shard.Slots)
		if s := all[0].Status(); s.Active {
			t.Errorf("the member without a connection is active: %+v", s)
		}
	})
}

func TestALeaseDurationIsFrom15SecondsToAnHour(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{})
	for d, ok := range map[time.Duration]bool{14 * time.Second: false, 15 * time.Second: true, time.Hour: true, time.Hour + time.Second: false} {
		if _, err := shard.New(newClient(t, server), web, shard.Options{LeaseDuration: d}); (err == nil) != ok {
			t.Errorf("%v: %v", d, err)
		}
	}
}

func TestWeightsAreShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		small := join(t, server, l, "small", 0, shard.Options{})
		large := join(t, server, l, "large", 0, shard.Options{Weight: 3})
		<-time.After(time.Minute)
		l.expect(shard.Slots)
		if s, l := len(small.Status().Slots), len(large.Status().Slots); l < 2*s {
			t.Errorf("weights 1 and 3 have %d and %d slots", s, l)
		}
	})
}

func TestMembershipCostsLessThanARequestPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		var all []*replica
		for i := range 5 {
			all = append(all, join(t, server, l, fmt.Sprint("r", i), 0, shard.Options{}))
		}
		<-time.After(time.Minute)
		for _, r := range all {
			r.link.Requests()
		}
		<-time.After(4 * time.Minute)
		for _, r := range all {
			if n := len(r.link.Requests()); n > 240/4 {
				t.Errorf("%s sent %d requests in 4 minutes", r.name, n)
			}
		}
	})
}

// Reconciles that take up to a minute end one after another, and so the slots are released. A member
// that joins and one that leaves get and give theirs within the bound nevertheless.
func TestASlowHandOverCostsLessThanARequestPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		l.slow = 200 * time.Millisecond
		var all []*replica
		for i := range 3 {
			all = append(all, join(t, server, l, fmt.Sprint("r", i), 0, shard.Options{}))
		}
		<-time.After(2 * time.Minute)
		for _, r := range all {
			r.link.Requests()
		}
		count := func(change string) {
			t.Helper()
			<-time.After(time.Minute)
			for _, r := range all {
				if n := len(r.link.Requests()); n > 60 {
					t.Errorf("%s: %s sent %d requests in a minute", change, r.name, n)
				}
			}
			l.expect(shard.Slots)
		}
		all = append(all, join(t, server, l, "joins", 0, shard.Options{}))
		count("a member joins")
		left := make(chan error, 1)
		go func() { left <- all[1].stop() }()
		count("a member leaves")
		if err := <-left; err != nil {
			t.Error(err)
		}
	})
}

// TestP01_RandomGroups runs real groups on the embedded server with random members and links. A link
// that is slow for longer than a lease is that of a process that is paused while it sends a request.
func TestP01_RandomGroups(t *testing.T) {
	for seed := range uint64(soak.Rounds(20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 2))
				server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
				var all []*replica
				add := func() {
					all = append(all, join(t, server, l, fmt.Sprint("r", len(all)), time.Duration(rng.IntN(3000))*time.Millisecond, shard.Options{}))
				}
				for range 1 + rng.IntN(4) {
					add()
				}
				for range 20 {
					<-time.After(time.Duration(rng.IntN(20_000)) * time.Millisecond)
					r := all[rng.IntN(len(all))]
					switch rng.IntN(7) {
					case 0:
						add()
					case 1:
						if err := r.stop(); err != nil {
							t.Error(err)
						}
					case 2:
						r.link.Set(true, 0)
					case 3:
						r.link.Set(false, time.Duration(rng.IntN(5000))*time.Millisecond)
					case 4:
						r.link.Set(false, time.Duration(rng.IntN(40_000))*time.Millisecond)
					default:
						r.link.Set(false, 0)
					}
				}
				add()
				for _, r := range all {
					r.link.Set(false, 0)
				}
				<-time.After(2 * time.Minute) // slow requests that were sent before are on their way for 40 s
				l.expect(shard.Slots)
			})
		})
	}
}
