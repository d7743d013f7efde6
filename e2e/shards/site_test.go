package shards

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
)

// site is a control plane, its objects, and the replicas that work on them.
type site struct {
	t        *testing.T
	plane    *controlplane.Plane
	clients  *kubernetes.Clientset
	keys     []types.NamespacedName
	firsts   []types.NamespacedName // one key of each namespace
	observer *observer
	journal  *journal
	replicas [5]struct {
		link *controlplane.Proxy
		*process
		task task
	}
	faults        []span        // rounds of them
	slowest       time.Duration // from the end of faults until all slots had an owner that worked
	stopObserving func()

	mu        sync.Mutex // guards all below
	processes []*process
	launched  int

	touching sync.RWMutex // held for reading while an object is changed, for writing while changes must wait
	touched  atomic.Int64
}

// newSite starts a control plane with ConfigMaps that have texts of a size.
func newSite(t *testing.T, gate bool, namespaces, each, size int) *site {
	t.Helper()
	plane := controlplane.Start(t, controlplane.Options{APIServerArgs: []string{fmt.Sprintf("--feature-gates=ShardedListAndWatch=%v", gate)}})
	clients, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t: t, plane: plane, clients: clients, observer: newObserver(clients),
		journal: &journal{stalls: map[string][]span{}, latest: map[*process]line{}, statuses: map[*process][]line{}},
	}
	for i := range s.replicas {
		s.replicas[i].link = controlplane.StartProxy(t, plane.Address())
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.processes {
			_ = p.end(syscall.SIGKILL)
			if t.Failed() {
				t.Logf("the log of %s ends:\n%s", p.name, p.lastLog())
			}
		}
	})
	s.each(append(s.names(namespaces), types.NamespacedName{Name: home}), func(ctx context.Context, n types.NamespacedName) error {
		_, err := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, metav1.CreateOptions{})
		return err
	})
	for _, n := range s.names(namespaces) {
		s.firsts = append(s.firsts, types.NamespacedName{Namespace: n.Name, Name: "job-0"})
		for i := range each {
			s.keys = append(s.keys, types.NamespacedName{Namespace: n.Name, Name: fmt.Sprintf("job-%d", i)})
		}
	}
	s.each(s.keys, func(ctx context.Context, n types.NamespacedName) error {
		job := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, Labels: map[string]string{ledgerLabel: "yes"}}, Data: map[string]string{"want": "0", "done": "0"}}
		if size > 0 {
			text := make([]byte, size/2)
			_, _ = crand.Read(text) // never fails
			job.Data["text"] = hex.EncodeToString(text)
		}
		_, err := clients.CoreV1().ConfigMaps(n.Namespace).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
	list, err := clients.CoreV1().Namespaces().List(patience.Context(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.stopObserving = s.goes(func(ctx context.Context) error { return s.observer.observe(ctx, list.ResourceVersion) })
	return s
}

func (s *site) names(namespaces int) (all []types.NamespacedName) {
	for i := range namespaces {
		all = append(all, types.NamespacedName{Name: fmt.Sprintf("%d-team", i)})
	}
	return all
}

// each calls a function for many names, some at a time.
func (s *site) each(names []types.NamespacedName, one func(context.Context, types.NamespacedName) error) {
	s.t.Helper()
	const writers = 16
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := i; n < len(names); n += writers {
				if err := one(s.t.Context(), names[n]); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// goes runs a function until the returned one is called, or the test has ended.
func (s *site) goes(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	s.t.Cleanup(stop)
	return stop
}

// start starts replica i, on its own link.
func (s *site) start(i int, do task) {
	config := s.replicas[i].link.Config(s.plane.Config())
	do.Host, do.CA, do.Cert, do.Key = config.Host, config.CAData, config.CertData, config.KeyData
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launched++
	do.Member = fmt.Sprintf("replica-%d-%d", i+1, s.launched)
	p, err := launch(s.journal, do)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.processes = append(s.processes, p)
	s.replicas[i].process, s.replicas[i].task = p, do
}

// alive fails the test if a replica has ended by itself.
func (s *site) alive() {
	s.t.Helper()
	for _, r := range s.replicas {
		if r.process == nil || r.cmd.ProcessState != nil {
			continue // not started, or ended by the test
		}
		select {
		case <-r.read:
			s.t.Fatalf("%s has ended", r.name)
		default:
		}
	}
}

// touch changes random objects until the returned function is called.
func (s *site) touch(every time.Duration) (stop func()) {
	rng := rand.New(rand.NewPCG(*seed, 2))
	return s.goes(func(ctx context.Context) error {
		for ctx.Err() == nil {
			// A change that was sent is also recorded.
			if err := s.touchOne(context.WithoutCancel(ctx), s.keys[rng.IntN(len(s.keys))]); err != nil {
				return err
			}
			patience.Linger(ctx, every)
		}
		return nil
	})
}

// touchFirsts changes one object of each namespace, so that every slot with keys has something to do.
func (s *site) touchFirsts() { s.each(s.firsts, s.touchOne) }

func (s *site) touchOne(ctx context.Context, key types.NamespacedName) error {
	s.touching.RLock()
	defer s.touching.RUnlock()
	s.observer.wants(key.String())
	patch := fmt.Appendf(nil, `{"data":{"want":"%d"}}`, s.touched.Add(1))
	m, err := s.clients.CoreV1().ConfigMaps(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return s.observer.touched(m)
}

// pauseTouching waits for the changes that are being made and lets the next ones wait.
func (s *site) pauseTouching() (resume func()) {
	s.touching.Lock()
	return s.touching.Unlock
}

// finish stops the replicas one after the other, and then the observer.
func (s *site) finish() {
	s.t.Helper()
	for i := range s.replicas {
		if err := s.replicas[i].end(syscall.SIGTERM); err != nil {
			s.t.Error(err)
		}
	}
	s.stopObserving()
}

// history returns what was recorded, after finish.
func (s *site) history() history {
	return history{
		writes: s.observer.writes, assignments: s.observer.assignments, stints: s.journal.stints, stalls: s.journal.stalls,
		touches: s.observer.touches, changes: s.observer.changes, faults: s.faults,
	}
}

// fault is what happens to one replica. It ends with a replica that runs and has a connection.
type fault struct {
	name   string
	strike func(s *site, i int, lasts time.Duration)
}

var faults = []fault{
	{"killed", func(s *site, i int, lasts time.Duration) {
		s.restart(i, syscall.SIGKILL, lasts/4)
	}},
	{"stopped", func(s *site, i int, lasts time.Duration) {
		s.restart(i, syscall.SIGTERM, lasts/4)
	}},
	{"paused", func(s *site, i int, lasts time.Duration) {
		p := s.replicas[i].cmd.Process
		s.check(p.Signal(syscall.SIGSTOP))
		patience.Linger(s.t.Context(), lasts)
		s.check(p.Signal(syscall.SIGCONT))
	}},
	{"partitioned, bytes arrive later", func(s *site, i int, lasts time.Duration) {
		s.replicas[i].link.Stall(true)
		patience.Linger(s.t.Context(), lasts)
		s.replicas[i].link.Stall(false)
	}},
	{"partitioned, connections fail", func(s *site, i int, lasts time.Duration) {
		link := s.replicas[i].link
		s.check(link.Refuse(true))
		link.Cut()
		patience.Linger(s.t.Context(), lasts)
		s.check(link.Refuse(false))
	}},
	{"open connections held, new ones not", func(s *site, i int, lasts time.Duration) {
		release := s.replicas[i].link.Hold()
		patience.Linger(s.t.Context(), lasts)
		release()
	}},
}

func shuffled(rng *rand.Rand) []fault {
	deck := append([]fault(nil), faults...)
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// restart ends replica i and starts it again after a while.
func (s *site) restart(i int, signal syscall.Signal, after time.Duration) {
	s.check(s.replicas[i].end(signal))
	patience.Linger(s.t.Context(), after)
	s.start(i, s.replicas[i].task)
}

func (s *site) check(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

// strike lets faults happen to different replicas at overlapping times, and returns when all are
// over.
func (s *site) strike(rng *rand.Rand, longest time.Duration, now []fault) {
	var all sync.WaitGroup
	began := time.Now()
	order := rng.Perm(len(s.replicas))
	for n, f := range now {
		i := order[n]
		wait := time.Duration(rng.Int64N(int64(5 * time.Second)))
		// Short faults are as likely as long ones: a lease lapses after 10 seconds.
		lasts := time.Second + time.Duration(rng.Int64N(int64(longest-time.Second)))
		s.t.Logf("%s: %s: %s in %s for %s", stamp(time.Now()), s.replicas[i].name, f.name, wait.Round(time.Millisecond), lasts.Round(time.Millisecond))
		all.Go(func() {
			patience.Linger(s.t.Context(), wait)
			f.strike(s, i, lasts)
		})
	}
	all.Go(s.touchFirsts)
	all.Wait()
	ended := time.Now()
	s.faults = append(s.faults, span{began, ended})
	s.journal.calm(ended)
	s.touchFirsts()
}
