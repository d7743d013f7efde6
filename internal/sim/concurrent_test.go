package sim_test

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

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// TestConcurrentSimulation runs a whole informer with subscribers of every temper. The
// seed fixes what the world does and who subscribes; the scheduler does the rest.
func TestConcurrentSimulation(t *testing.T) {
	var seen tally
	usual := simulate(t, 60, func(seed uint64, trace *sim.Trace) error {
		return newPipeline(seed, trace, nil).simulate(&seen)
	})
	if !usual {
		return
	}
	for _, what := range []string{"caught up", "panics", "resyncs", "removals", "namespace sets", "rewinds noticed", "lists", "events", "early ends", "shard changes"} {
		if seen.of(what) == 0 {
			t.Errorf("there were no %s", what)
		}
	}
	t.Logf("%v", seen.counts)
}

// pipeline is one run.
type pipeline struct {
	trace  *sim.Trace
	rand   *rand.Rand
	world  *sim.World
	mirror *mirror
	inf    *informer.Informer[*sim.Thing]
	opts   informer.Options[*sim.Thing]
	// sharded says that the part that is mirrored changes.
	sharded bool
	// covered are the namespaces of an informer that has a set of them.
	covered []string
	subs    []*subscriber
	joined  int // subscribers ever
	epochs  map[object.Scope]object.Epoch
	seen    *tally

	mu   sync.Mutex // guards gate
	gate chan struct{}
}

func newPipeline(seed uint64, trace *sim.Trace, between func(sim.Source) sim.Source) *pipeline {
	r := rand.New(rand.NewPCG(seed, 2))
	p := &pipeline{trace: trace, rand: r, world: sim.NewWorld(r, trace), mirror: newIndexes(), epochs: map[object.Scope]object.Epoch{}}
	p.world.Settle = synctest.Wait
	p.opts = informer.Options[*sim.Thing]{
		Name: "things", Indexes: p.mirror.indexes(), Reflector: randomReflector(r),
		Log: 1 + r.IntN(40), Pending: 1 + r.IntN(40),
	}
	var mu sync.Mutex
	unlocked := p.opts.Reflector.Rand
	p.opts.Reflector.Rand = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return unlocked()
	}
	p.opts.Reflector.OnError = func(err error) { trace.Add("reflector", "%v", err) }
	p.opts.OnPanic = func(err *informer.PanicError) { trace.Add("informer", "%v", err) }
	switch r.IntN(8) {
	case 0, 1:
		p.opts.Form = compact()
	case 2:
		p.opts.OnMutation = p.mirror.mutated
	}
	if r.IntN(4) == 0 {
		p.opts.Transform = func(t *sim.Thing) (*sim.Thing, error) { c := *t; return &c, nil }
	}
	p.sharded = r.IntN(3) == 0
	sels := randomSelections(r)
	p.opts.Selection = sels[0]
	if len(sels) > 1 || r.IntN(6) == 0 {
		p.opts.Selection.Namespace = ""
		p.covered = slices.Clone(sim.Namespaces[:r.IntN(3)])
		if p.covered == nil {
			p.covered = []string{}
		}
		p.opts.Namespaces = p.covered
	}
	var src sim.Source = p.world.Faulty
	if between != nil {
		src = between(src)
	}
	var err error
	if p.inf, err = informer.New(src, sim.Accessor, p.opts); err != nil {
		panic(err)
	}
	p.world.Marks = func() (marks []object.Mark) {
		for _, src := range p.inf.Status().Sources {
			marks = append(marks, src.Reflector.Mark)
		}
		return marks
	}
	return p
}

// simulate runs the informer and everything around it, and checks.
func (p *pipeline) simulate(seen *tally) error {
	p.seen = seen
	for range p.rand.IntN(4) {
		if err := p.join(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- p.inf.Run(ctx) }()
	err := p.rounds()
	cancel()
	p.open()
	if ended := <-ran; err == nil && ended != nil {
		err = fmt.Errorf("run: %w", ended)
	}
	if err != nil {
		// Loops end with the informer; whatever else is left, the bubble finds.
		return err
	}
	return p.checkEnd()
}

// rounds are a few stretches of noise with a quiet point after each. Some runs are over
// before they get there.
func (p *pipeline) rounds() error {
	early := p.rand.IntN(8) == 0
	for round := range 3 {
		p.shut()
		for range 15 + p.rand.IntN(30) {
			if err := p.move(); err != nil {
				return err
			}
		}
		if early && round == p.rand.IntN(2) {
			p.trace.Add("sim", "ends early")
			p.seen.add("early ends", 1)
			return nil
		}
		p.trace.Add("sim", "quiet")
		p.world.Quiet()
		p.open()
		for _, healed := range []bool{false, true} {
			if healed {
				p.world.Heal()
			}
			if err := p.settle(); err != nil {
				return err
			}
			if err := p.check(healed); err != nil {
				return fmt.Errorf("at a quiet point, healed %v: %w", healed, err)
			}
		}
		p.world.Noisy()
	}
	return nil
}

// move does one thing to the world or to the subscribers, and lets some time pass.
func (p *pipeline) move() error {
	switch n := p.rand.IntN(20); {
	case n == 0:
		if err := p.join(); err != nil {
			return err
		}
	case n == 1 && len(p.subs) > 0:
		p.subs[p.rand.IntN(len(p.subs))].remove()
		p.seen.add("removals", 1)
	case n == 2 && p.covered != nil && !p.world.Rewound(): // the only source that can notice it may be removed
		p.cover()
	case n <= 4 && n > 2 && p.sharded:
		p.reshard()
	default:
		p.world.Move()
	}
	switch p.rand.IntN(4) {
	case 0:
	case 1:
		synctest.Wait()
	default:
		pass(time.Duration(p.rand.Int64N(int64(20 * time.Second))))
	}
	return p.checkSynced()
}

// checkSynced holds what the informer says of being synced against its mirror.
func (p *pipeline) checkSynced() error {
	if !p.inf.Status().Synced {
		return nil
	}
	snap := p.inf.Snapshot()
	defer snap.Release()
	for _, sel := range p.selections() {
		scope := object.Everything
		if p.covered != nil {
			scope = object.Scope(sel.Namespace)
		}
		if m := snap.Mark(scope); !m.Version.Known() {
			return fmt.Errorf("synced, but nothing of %q was ever listed", scope)
		} else if !m.Shard.Covers(sel.Shard) {
			return fmt.Errorf("synced, but of %q there is %s instead of %s", scope, m.Shard.Selector(), sel.Shard.Selector())
		}
	}
	return nil
}

func (p *pipeline) join() error {
	p.joined++
	s, err := subscribe(p.inf, fmt.Sprint("sub ", p.joined), p.rand, p.world.Server, p.trace, p.wait)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	p.subs = append(p.subs, s)
	return nil
}

// cover changes the set of namespaces.
func (p *pipeline) cover() {
	p.covered = nil
	for _, ns := range sim.Namespaces {
		if p.rand.IntN(2) == 0 {
			p.covered = append(p.covered, ns)
		}
	}
	if p.covered == nil {
		p.covered = []string{}
	}
	p.trace.Add("sim", "covers %v", p.covered)
	p.seen.add("namespace sets", 1)
	if err := p.inf.SetNamespaces(p.covered...); err != nil {
		panic(err)
	}
}

// reshard changes the part that is mirrored.
func (p *pipeline) reshard() {
	p.opts.Selection.Shard = randomShard(p.rand, p.world.Server)
	p.trace.Add("sim", "the shard is %s", p.opts.Selection.Shard.Selector())
	p.seen.add("shard changes", 1)
	if err := p.inf.SetShard(p.opts.Selection.Shard); err != nil {
		panic(err)
	}
}

// shut makes blocked subscribers wait, open lets them go on.
func (p *pipeline) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = make(chan struct{})
}

func (p *pipeline) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
}

func (p *pipeline) wait() {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// selections are what the informer is to cover now.
func (p *pipeline) selections() []object.Selection {
	if p.covered == nil {
		return []object.Selection{p.opts.Selection}
	}
	var out []object.Selection
	for _, ns := range p.covered {
		sel := p.opts.Selection
		sel.Namespace = ns
		out = append(out, sel)
	}
	return out
}

// settle waits until the mirror holds everything and every subscriber has received it.
func (p *pipeline) settle() error {
	const most = 4 * time.Hour
	began := time.Now()
	synctest.Wait()
	for !p.settled() {
		if time.Since(began) > most {
			return fmt.Errorf("after %v without faults still not up to date:\n%v", most, p.inf.Status())
		}
		pass(5 * time.Second)
		synctest.Wait()
	}
	return nil
}

func (p *pipeline) settled() bool {
	if p.world.Rewound() {
		return false
	}
	st := p.inf.Status()
	if !st.Live() || st.Pending.Deltas+st.Pending.InFlight > 0 || !p.world.Faulty.Drained() || len(st.Sources) != len(p.selections()) {
		return false
	}
	for _, sel := range p.selections() {
		if !p.world.Server.Current(sel) {
			return false
		}
	}
	for _, s := range st.Subscribers {
		if s.Lag > 0 {
			return false
		}
	}
	return true
}

// check is what must hold at a quiet point; healed says that all objects are sound.
func (p *pipeline) check(healed bool) error {
	snap := p.inf.Snapshot()
	defer snap.Release()
	got := stateOf(snap)
	want := map[object.Key]*sim.Thing{}
	for _, sel := range p.selections() {
		for k, t := range p.world.Server.State(sel) {
			want[k] = t
		}
	}
	compare := sim.Compare
	if !healed {
		compare = p.world.Compare
	}
	if err := compare(got, want); err != nil {
		return fmt.Errorf("the mirror %w", err)
	}
	for _, s := range p.subs {
		if err := s.check(got); err != nil {
			return err
		}
	}
	p.subs = slices.DeleteFunc(p.subs, (*subscriber).over)
	for m := range snap.Marks() {
		for other := range snap.Marks() {
			if other.Epoch != m.Epoch {
				return fmt.Errorf("%q is in epoch %d, but %q in %d", m.Scope, m.Epoch, other.Scope, other.Epoch)
			}
		}
		if m.Epoch < p.epochs[m.Scope] {
			return fmt.Errorf("the epoch of %q went back from %d to %d", m.Scope, p.epochs[m.Scope], m.Epoch)
		}
		p.epochs[m.Scope] = m.Epoch
	}
	st := p.inf.Status()
	if err := checkQuarantine(p.world.Server, st.Quarantine); err != nil {
		return err
	}
	if healed && len(st.Quarantine) > 0 {
		return fmt.Errorf("all objects are sound, but in quarantine there is %v", st.Quarantine[0].Key)
	}
	for _, s := range st.Subscribers {
		p.seen.add("caught up", int(s.CaughtUp))
		p.seen.add("panics", int(s.Panics))
		p.seen.add("resyncs", int(s.Resyncs))
		p.seen.add("events", int(s.Calls))
	}
	for _, s := range st.Sources {
		p.seen.add("rewinds noticed", int(s.Reflector.Counts.Rewinds))
		p.seen.add("lists", int(s.Reflector.Counts.Lists))
	}
	if err := p.reach(); err != nil {
		return err
	}
	p.inf.Edit((*store.Store[*sim.Thing]).CheckMutations)
	return p.mirror.check(snap)
}

// reach waits for the server's version, now and then. Where there is a bookmark every
// minute that must not take long.
func (p *pipeline) reach() error {
	if !p.world.Server.Bookmarks() || p.rand.IntN(3) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	return p.inf.WaitFor(ctx, object.Version(strconv.FormatUint(p.world.Server.Version(), 10)))
}

// checkEnd is what must hold after Run.
func (p *pipeline) checkEnd() error {
	synctest.Wait()
	for _, s := range p.subs {
		if !s.over() {
			return fmt.Errorf("Run has returned, but a subscriber (%s) is not done", temperNames[s.temper])
		}
		if err := s.view.Err(); err != nil {
			return err
		}
	}
	if n := p.world.Server.Streams(); n > 0 {
		return fmt.Errorf("Run has returned, but %d streams are open", n)
	}
	return nil
}
