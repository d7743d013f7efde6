package controller_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

var simSeed = flag.Uint64("sim.seed", 0, "simulate this world only")

// sim is a simulated cluster: users who change pods, and processes that compete for leadership.
type sim struct {
	t      *testing.T
	pods   *simtest.Server[*corev1.Pod]
	leases *apiserver.Server
	procs  []*process

	mu     sync.Mutex // guards all below
	rand   *rand.Rand
	faults bool
	wants  int
}

// process is a candidate. Its connection to the lease has outages and requests that hang.
type process struct {
	*sim
	name   string
	link   *simtest.LeaseLink
	pods   *informer.Informer[*corev1.Pod]
	client *podClient
	stop   func() error

	// Guarded by sim.mu:
	saw   map[object.Key]string   // the version of the last successful reconcile
	wrote map[object.Key]int      // the last version it wrote
	busy  map[object.Key]struct{} // what it reconciles
}

func (s *sim) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults && s.rand.IntN(n) == 0
}

func (s *sim) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rand.Int64N(int64(d)))
}

func (s *sim) pick(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// mayStart checks the property: nothing starts at or after the end of the process's lease.
func (p *process) mayStart(what string) {
	if now, ends := time.Now(), p.link.Deadline(); !now.Before(ends) {
		p.t.Errorf("%s: %s started %v after the lease had ended", p.name, what, now.Sub(ends))
	}
}

type processKey struct{}

const simFinalizer = controller.Finalizer("sim/f")

var errSim = errors.New("a fault")

func (p *process) reconcile(ctx context.Context, key object.Key) (result, error) {
	p.mayStart("a reconcile")
	p.mu.Lock()
	if _, twice := p.busy[key]; twice {
		p.t.Errorf("%s: two workers on %s", p.name, key)
	}
	p.busy[key] = struct{}{}
	wrote := p.wrote[key]
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.busy, key)
	}()
	pod, ok := p.pods.Get(key)
	if !ok {
		return result{}, nil
	}
	if v, _ := strconv.Atoi(pod.ResourceVersion); v < wrote {
		p.t.Errorf("%s: reads %s at %d after it wrote %d", p.name, key, v, wrote)
	}
	switch {
	case p.chance(8):
		return result{}, errSim
	case p.chance(12):
		panic(errSim)
	case p.chance(6):
		select {
		case <-time.After(p.upTo(8 * time.Second)):
		case <-ctx.Done():
			return result{}, ctx.Err()
		}
	case p.chance(10):
		<-time.After(p.upTo(3 * time.Second)) // and ignores its context
	}
	seen := pod.ResourceVersion
	pod, gone, err := controller.Finalize(ctx, p.client.replace, pod, simFinalizer, func(context.Context, *corev1.Pod) error {
		if p.chance(4) {
			return errSim
		}
		return nil
	})
	if err == nil && !gone && pod.Labels["done"] != pod.Labels["want"] {
		pod = pod.DeepCopy()
		pod.Labels["done"] = pod.Labels["want"]
		pod, err = p.client.Update(ctx, pod, none{})
	}
	if err != nil {
		return result{}, err
	}
	p.mu.Lock()
	p.saw[key] = seen
	if v, _ := strconv.Atoi(pod.ResourceVersion); pod.ResourceVersion != seen && v > p.wrote[key] {
		p.wrote[key] = v
	}
	p.mu.Unlock()
	switch {
	case p.chance(5):
		return result{Requeue: true}, nil
	case p.chance(5):
		return result{RequeueAfter: p.upTo(time.Minute)}, nil
	}
	return result{}, nil
}

// onWrite is called before each attempt of a write.
func (s *sim) onWrite(ctx context.Context) error {
	p, ok := ctx.Value(processKey{}).(*process)
	if !ok {
		return nil // a write by a user
	}
	p.mayStart("a write")
	switch {
	case s.chance(6):
		<-time.After(s.upTo(5 * time.Second))
	case s.chance(10):
		return errSim
	}
	return nil
}

func (s *sim) start(name string) *process {
	p := &process{
		sim: s, name: name, saw: map[object.Key]string{}, wrote: map[object.Key]int{},
		busy: map[object.Key]struct{}{}, pods: newInformer("pods", s.pods), link: simtest.NewLeaseLink(s.leases.MemoryConfig(), name),
	}
	p.client = newClient(s.pods, p.pods)
	p.client.before = s.onWrite
	c := newController(s.t, p.reconcile, options{
		Workers: 3, Timeout: 20 * time.Second, Grace: s.upTo(10 * time.Second),
		Queue: workqueue.Options[object.Key]{Limiter: workqueue.NewExponential[object.Key](10*time.Millisecond, 10*time.Second)},
	}, controller.For(p.pods))
	e, err := leader.New(p.link.Client(s.leases.MemoryConfig()), object.Key{Namespace: "default", Name: "sim"}, leader.Options{Identity: name})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), processKey{}, p))
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, p.pods, controller.WhileLeading(e, c)) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	return p
}

// restart stops a process cleanly and starts another one.
func (s *sim) restart(i int) {
	var left *controller.UnfinishedError[object.Key]
	if err := s.procs[i].stop(); err != nil && (!errors.As(err, &left) || len(left.Running) > 0) {
		s.t.Errorf("%s ended with: %v", s.procs[i].name, err)
	}
	s.procs[i] = s.start(s.procs[i].name + "'")
}

// chaos makes random changes and injects random faults.
func (s *sim) chaos() {
	s.set(func() { s.faults = true })
	for range 40 + s.pick(40) {
		<-time.After(s.upTo(3 * time.Second))
		key := fmt.Sprint("ns/p", s.pick(8))
		p := s.procs[s.pick(len(s.procs))]
		switch n := s.pick(20); {
		case n < 9:
			s.set(func() { s.wants++ })
			if obj := s.pods.Get(key); obj == nil || obj.DeletionTimestamp == nil {
				s.pods.Set(key, label[*corev1.Pod]("want", fmt.Sprint(s.wants)))
			}
		case n < 11:
			if obj := s.pods.Get(key); obj != nil && obj.DeletionTimestamp == nil && simFinalizer.On(obj) {
				deleteAsUser(s.pods, key)
			}
		case n < 12:
			s.pods.Hold(true)
		case n < 14:
			s.pods.Hold(false)
		case n < 15:
			p.link.Set(true, 0)
		case n < 17:
			p.link.Set(false, 0)
		case n < 18:
			p.link.Set(false, s.upTo(time.Minute))
		case n < 19:
			s.restart(s.pick(len(s.procs)))
		default:
			<-time.After(s.upTo(40 * time.Second))
		}
	}
}

func (s *sim) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// quiet ends all faults, waits, and checks that the leader has caught up.
func (s *sim) quiet() {
	s.pods.Hold(false)
	s.set(func() { s.faults = false })
	for _, p := range s.procs {
		p.link.Set(false, 0)
	}
	simtest.Advance(5 * time.Minute)
	s.mu.Lock()
	defer s.mu.Unlock()
	var lead *process
	for _, p := range s.procs {
		if time.Now().Before(p.link.Deadline()) {
			if lead != nil {
				s.t.Errorf("%s and %s both hold the lease", p.name, lead.name)
			}
			lead = p
		}
	}
	if lead == nil {
		s.t.Fatal("no process leads")
	}
	for _, pod := range s.pods.Objects() {
		key := simtest.KeyOf(pod)
		switch {
		case pod.DeletionTimestamp != nil:
			s.t.Errorf("%s has not been let go", key)
		case pod.Labels["done"] != pod.Labels["want"] || !simFinalizer.On(pod):
			s.t.Errorf("%s: %v", key, pod.Labels)
		case lead.saw[key] != pod.ResourceVersion:
			s.t.Errorf("%s is at %s, and %s last reconciled %s", key, pod.ResourceVersion, lead.name, lead.saw[key])
		}
	}
}

func TestSimulation(t *testing.T) {
	simulate := func(seed uint64) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sim{t: t, pods: simtest.Pods(), leases: apiserver.Start(t, apiserver.Options{}), rand: rand.New(rand.NewPCG(seed, 1))}
				for i := range 2 + s.pick(2) {
					s.procs = append(s.procs, s.start(string(rune('a'+i))))
				}
				for range 2 {
					s.chaos()
					s.quiet()
				}
				for i, p := range s.procs {
					if err := p.stop(); err != nil {
						t.Errorf("%d: %v", i, err)
					}
				}
				synctest.Wait()
			})
		})
	}
	if *simSeed != 0 {
		simulate(*simSeed)
		return
	}
	for seed := range soak.Rounds(15) {
		simulate(uint64(seed) + 1)
	}
}
