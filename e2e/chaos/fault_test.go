package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
)

// fault is something that goes wrong and is right again when strike returns.
type fault struct {
	name string
	// weight is how many of a hundred faults are of this kind, more or less.
	weight float64
	strike func(ctx context.Context, s *site, rng *rand.Rand) error
}

// site is where faults strike.
type site struct {
	plane   *controlplane.Plane
	proxies []*controlplane.Proxy
}

// moveOn waits until so many versions have come to be.
func (s *site) moveOn(ctx context.Context, versions int64) error {
	from, err := s.plane.Revision(ctx)
	if err != nil {
		return err
	}
	return eventually(ctx, "writes", func() error {
		now, err := s.plane.Revision(ctx)
		if err == nil && now < from+versions {
			err = fmt.Errorf("revision %d after %d", now, from)
		}
		return err
	})
}

// faults are all kinds. Those of the network cost next to nothing and are many; each start
// of the API server costs seconds.
var faults = []fault{
	{"connections cut", 22, network(func(_ context.Context, p *controlplane.Proxy, _ *rand.Rand) error {
		p.Cut()
		return nil
	})},
	{"answers cut off", 17, network(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		// From the middle of the TLS handshake to far into a list.
		p.CutAfter(1 << rng.IntN(18))
		p.Cut()
		linger(ctx, between(rng, 50, 400))
		p.CutAfter(-1)
		return nil
	})},
	{"slow network", 8, network(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		p.Slow(2000<<rng.IntN(7), between(rng, 0, 20))
		linger(ctx, between(rng, 100, 600))
		p.Slow(0, 0)
		return nil
	})},
	{"network stalled", 9, network(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		p.Stall(true)
		linger(ctx, between(rng, 50, 800))
		p.Stall(false)
		return nil
	})},
	{"old news late", 7, network(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		// Long enough for a watch to be given up, so that the next one overtakes it.
		release := p.Hold()
		linger(ctx, between(rng, 200, 2500))
		release()
		return nil
	})},
	{"connections refused", 9, network(func(ctx context.Context, p *controlplane.Proxy, rng *rand.Rand) error {
		if err := p.Refuse(true); err != nil {
			return err
		}
		p.Cut()
		linger(ctx, between(rng, 50, 400))
		return p.Refuse(false)
	})},
	{"etcd compacted", 8, func(ctx context.Context, s *site, rng *rand.Rand) error {
		// Whoever is cut off now, and has no watch cache to help, cannot resume.
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
	{"API server paused", 6, func(ctx context.Context, s *site, rng *rand.Rand) error {
		return pause(ctx, s.plane.APIServer, between(rng, 50, 1200))
	}},
	{"etcd paused", 5, func(ctx context.Context, s *site, rng *rand.Rand) error {
		return pause(ctx, s.plane.Etcd, between(rng, 50, 1200))
	}},
	{"API server killed", 4, func(ctx context.Context, s *site, rng *rand.Rand) error {
		if err := s.plane.APIServer.Kill(); err != nil {
			return err
		}
		linger(ctx, between(rng, 0, 300))
		return start(ctx, s.plane.APIServer)
	}},
	{"API server restarted", 1, func(ctx context.Context, s *site, _ *rand.Rand) error {
		ending, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		// One that does not end in time is killed, which is as well.
		_ = s.plane.APIServer.Stop(ending)
		return start(ctx, s.plane.APIServer)
	}},
	{"etcd killed", 1.5, func(ctx context.Context, s *site, rng *rand.Rand) error {
		if err := s.plane.Etcd.Kill(); err != nil {
			return err
		}
		linger(ctx, between(rng, 0, 300))
		if err := start(ctx, s.plane.Etcd); err != nil {
			return err
		}
		return s.plane.APIServer.WaitReady(ctx)
	}},
	{"compacted and restarted", 2, func(ctx context.Context, s *site, rng *rand.Rand) error {
		if err := s.plane.Compact(ctx, 0); err != nil {
			return err
		}
		if err := s.plane.APIServer.Kill(); err != nil {
			return err
		}
		return start(ctx, s.plane.APIServer)
	}},
}

// network makes a fault of what is done to a proxy, or to both.
func network(strike func(context.Context, *controlplane.Proxy, *rand.Rand) error) func(context.Context, *site, *rand.Rand) error {
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
	linger(ctx, d)
	return part.Resume()
}

// start starts a part. Its port was free for a moment, in which some connection may have
// got it.
func start(ctx context.Context, part *controlplane.Part) error {
	const tries = 5
	for try := 1; ; try++ {
		err := part.Start(ctx)
		if err == nil || try == tries || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		linger(ctx, time.Second)
	}
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
