package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
)

// fault is something that goes wrong and is right again when strike returns.
type fault struct {
	name string
	// weight is how many of a hundred faults are of this kind, more or less.
	weight float64
	with   company
	strike func(ctx context.Context, s *site, rng *rand.Rand) error
}

// company is what a fault may strike together with.
type company int

const (
	anything company = iota // of the network: several at once end as they should
	network                 // of a server: one at a time, and whatever the network does
	nothing
)

// site is where faults strike.
type site struct {
	plane   *controlplane.Plane
	proxies []*controlplane.Proxy
	// rewind goes back to an older state of etcd, and sees to it that all notice.
	rewind func(context.Context) error
}

// moveOn waits until so many versions have come to be.
func (s *site) moveOn(ctx context.Context, versions int64) error {
	from, err := s.plane.Revision(ctx)
	if err != nil {
		return err
	}
	return s.moveTo(ctx, from+versions)
}

// moveTo waits for a version.
func (s *site) moveTo(ctx context.Context, version int64) error {
	return patience.For(ctx, "writes", func() error {
		now, err := s.plane.Revision(ctx)
		if err == nil && now < version {
			err = fmt.Errorf("revision %d", now)
		}
		return err
	})
}

// faults are all kinds. Those of the network cost next to nothing and are many; each start
// of the API server costs seconds.
var faults = []fault{
	{"connections cut", 23, anything, proxied(func(_ context.Context, p *controlplane.Proxy, _ *rand.Rand) error {
		p.Cut()
		return nil
	})},
	{"answers cut off", 17, anything, proxied(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		// From the middle of the TLS handshake to far into a list.
		p.CutAfter(1 << rng.IntN(18))
		p.Cut()
		patience.Linger(ctx, between(rng, 50, 400))
		p.CutAfter(-1)
		return nil
	})},
	{"slow network", 8, anything, proxied(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		p.Slow(2000<<rng.IntN(7), between(rng, 0, 20))
		patience.Linger(ctx, between(rng, 100, 600))
		p.Slow(0, 0)
		return nil
	})},
	{"network stalled", 8, anything, proxied(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		p.Stall(true)
		patience.Linger(ctx, between(rng, 50, 800))
		p.Stall(false)
		return nil
	})},
	{"old news late", 6, anything, proxied(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		// Sometimes long enough for a watch to be given up, so that the next one overtakes it.
		release := p.Hold()
		patience.Linger(ctx, between(rng, 200, 2500))
		release()
		return nil
	})},
	{"connections reordered", 6, anything, proxied(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		// What came first on one connection arrives after what came last on another.
		release := p.HoldEach()
		rng.Shuffle(len(release), func(i, j int) { release[i], release[j] = release[j], release[i] })
		patience.Linger(ctx, between(rng, 50, 300))
		for _, one := range release {
			one()
			patience.Linger(ctx, between(rng, 0, 100))
		}
		return nil
	})},
	{"connections refused", 9, anything, proxied(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		if err := p.Refuse(true); err != nil {
			return err
		}
		p.Cut()
		patience.Linger(ctx, between(rng, 50, 400))
		return p.Refuse(false)
	})},
	{"etcd compacted", 8, network, func(ctx context.Context, s *site, rng *rand.Rand) error {
		// A watch that is cut now and has no watch cache behind it cannot resume.
		for _, p := range s.proxies {
			if err := p.Refuse(true); err != nil {
				return err
			}
			p.Cut()
		}
		err := s.moveOn(ctx, 5)
		if err == nil {
			err = s.plane.Compact(ctx, rng.Int64N(3))
		}
		for _, p := range s.proxies {
			if err := p.Refuse(false); err != nil {
				return err
			}
		}
		return err
	}},
	{"API server paused", 3.5, network, func(ctx context.Context, s *site, rng *rand.Rand) error {
		return pause(ctx, s.plane.APIServer, between(rng, 50, 1200))
	}},
	{"etcd paused", 3.5, network, func(ctx context.Context, s *site, rng *rand.Rand) error {
		return pause(ctx, s.plane.Etcd, between(rng, 50, 1200))
	}},
	{"API server killed", 2, network, func(ctx context.Context, s *site, rng *rand.Rand) error {
		if err := s.plane.APIServer.Kill(); err != nil {
			return err
		}
		patience.Linger(ctx, between(rng, 0, 300))
		return s.plane.APIServer.Start(ctx)
	}},
	{"API server restarted", 1, network, func(ctx context.Context, s *site, _ *rand.Rand) error {
		ending, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		// One that does not end in time is killed, which is as well.
		_ = s.plane.APIServer.Stop(ending)
		return s.plane.APIServer.Start(ctx)
	}},
	{"etcd killed", 2.5, network, func(ctx context.Context, s *site, rng *rand.Rand) error {
		if err := s.plane.Etcd.Kill(); err != nil {
			return err
		}
		patience.Linger(ctx, between(rng, 0, 300))
		if err := s.plane.Etcd.Start(ctx); err != nil {
			return err
		}
		return s.plane.APIServer.WaitReady(ctx)
	}},
	{"compacted and restarted", 1, network, func(ctx context.Context, s *site, rng *rand.Rand) error {
		// etcd refuses to forget the same again.
		if err := s.moveOn(ctx, 1); err != nil {
			return err
		}
		if err := s.plane.Compact(ctx, 0); err != nil {
			return err
		}
		if err := s.plane.APIServer.Kill(); err != nil {
			return err
		}
		return s.plane.APIServer.Start(ctx)
	}},
	{"an older etcd restored", 1, nothing, func(ctx context.Context, s *site, _ *rand.Rand) error {
		return s.rewind(ctx)
	}},
}

// proxied makes a fault of what is done to a proxy, or to both.
func proxied(strike func(context.Context, *controlplane.Proxy, *rand.Rand) error) func(context.Context, *site, *rand.Rand) error {
	return func(ctx context.Context, s *site, rng *rand.Rand) error {
		which := rng.IntN(len(s.proxies) + 1)
		errs := make(chan error, len(s.proxies))
		for i, p := range s.proxies {
			if which != i && which != len(s.proxies) {
				errs <- nil
				continue
			}
			own := rand.New(rand.NewPCG(rng.Uint64(), 0))
			go func() { errs <- strike(ctx, p, own) }()
		}
		var err error
		for range s.proxies {
			if e := <-errs; e != nil {
				err = e
			}
		}
		return err
	}
}

func pause(ctx context.Context, part *controlplane.Part, d time.Duration) error {
	if err := part.Pause(); err != nil {
		return err
	}
	patience.Linger(ctx, d)
	return part.Resume()
}

// between returns a random time in milliseconds.
func between(rng *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+rng.IntN(most-least)) * time.Millisecond
}

// deck returns n faults, or a few more, in random order: of each kind as its weight says,
// and one at the least.
func deck(n int, rng *rand.Rand) []fault {
	var total float64
	for _, f := range faults {
		total += f.weight
	}
	var all []fault
	for _, f := range faults {
		for range max(1, int(f.weight*float64(n)/total+0.5)) {
			all = append(all, f)
		}
	}
	for len(all) < n {
		all = append(all, faults[0])
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// draw takes the next faults off a deck: one, or several that strike together.
func draw(deck []fault, rng *rand.Rand) (burst, rest []fault) {
	most := 1
	if rng.IntN(2) == 0 {
		most = 2 + rng.IntN(3)
	}
	servers := 0
	for n, f := range deck {
		if f.with == network {
			servers++
		}
		if n == most || servers > 1 || n > 0 && f.with == nothing {
			return deck[:n], deck[n:]
		}
		if f.with == nothing {
			return deck[:1], deck[1:]
		}
	}
	return deck, nil
}

func TestADeckHasEverythingAndIsDrawnInBurstsThatGoTogether(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		all := deck(200, rng)
		drawn, several, kinds := 0, 0, map[string]int{}
		for rest := all; len(rest) > 0; {
			var burst []fault
			burst, rest = draw(rest, rng)
			servers := 0
			for _, f := range burst {
				kinds[f.name]++
				if f.with == network {
					servers++
				}
				if f.with == nothing && len(burst) > 1 {
					t.Errorf("%s strikes with others", f.name)
				}
			}
			if servers > 1 || len(burst) == 0 {
				t.Fatalf("%d faults of servers among %d", servers, len(burst))
			}
			if len(burst) > 1 {
				several++
			}
			drawn += len(burst)
		}
		if drawn != len(all) || drawn < 200 || several == 0 {
			t.Errorf("drawn %d of %d faults, %d times several", drawn, len(all), several)
		}
		for _, f := range faults {
			if kinds[f.name] == 0 {
				t.Errorf("no %s", f.name)
			}
		}
	}
}
