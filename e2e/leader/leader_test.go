package leader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
)

func TestOnlyTheLeaderWorksWhateverHappensToIt(t *testing.T) {
	t.Logf("-seed=%d -soak=%d -leader.rounds=%d", *seed, *soak, *rounds)
	rounds := *rounds * *soak
	c := newContest(t)
	rng := rand.New(rand.NewPCG(*seed, 0))
	began := time.Now()
	kinds := map[string]int{}
	for round := range rounds {
		// Each is hit by everything, in any order.
		if round%len(torments) == 0 {
			rng.Shuffle(len(torments), func(i, j int) { torments[i], torments[j] = torments[j], torments[i] })
		}
		m := torments[round%len(torments)]
		// It leads, and does so for a while that depends on chance.
		c.works(nil, time.Now())
		patience.Linger(t.Context(), time.Duration(rng.IntN(500))*time.Millisecond)
		who := c.leader()
		t.Logf("%s: round %d: %s: %s", time.Since(began).Round(time.Millisecond), round+1, who.identity, m.name)
		kinds[m.name]++
		m.strike(c, who, rng)
	}
	c.settle()

	c.mu.Lock()
	v := judge(c.of)
	c.mu.Unlock()
	for _, w := range v.wrong {
		t.Error(w)
	}
	if len(v.wrong) > 0 {
		c.dump()
	}
	writes, wrong := c.ledger.found()
	for _, w := range wrong {
		t.Error(w)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, m := range torments {
		fmt.Fprintf(w, "leader %s\t%d\n", m.name, kinds[m.name])
	}
	fmt.Fprintf(w, "processes\t%d\n", len(c.of))
	fmt.Fprintf(w, "terms\t%d\n", v.terms)
	fmt.Fprintf(w, "reconciles begun\t%d\n", v.reconciles)
	fmt.Fprintf(w, "writes begun\t%d\n", v.writes)
	fmt.Fprintf(w, "writes that the server took\t%d\n", writes)
	fmt.Fprintf(w, "writes refused as conflicts\t%d\n", v.conflicts)
	fmt.Fprintf(w, "writes whose end was not heard of\t%d\n", v.unheard)
	fmt.Fprintf(w, "begun before a pause, noted after it\t%d\n", v.inFlight)
	fmt.Fprintf(w, "begun after the lease's deadline\t%d\n", len(v.wrong))
	_ = w.Flush()
	t.Logf("seed %d, %s, a lease of %s\n%s", *seed, time.Since(began).Round(time.Second), leaseDuration, b.String())
	if v.terms <= rounds/2 || writes == 0 {
		t.Errorf("%d terms and %d writes: this run proves little", v.terms, writes)
	}
}

// torment is something that happens to a leader.
type torment struct {
	name   string
	strike func(c *contest, who *process, rng *rand.Rand)
}

var torments = []torment{
	{"killed", func(c *contest, who *process, _ *rand.Rand) {
		c.t.Helper()
		now := time.Now()
		if err := who.end(syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
		c.works(who, now)
		c.replace(who)
	}},
	{"paused until another leads", func(c *contest, who *process, _ *rand.Rand) {
		c.t.Helper()
		now := time.Now()
		who.pause(c.t)
		c.works(who, now)
		resumed := who.resume(c.t)
		c.await(c.t, who.identity+" to notice that it does not lead", resumed, func(p *process, l line) bool {
			return p == who && l.What == lost
		})
	}},
	{"paused for a moment", func(c *contest, who *process, rng *rand.Rand) {
		c.t.Helper()
		who.pause(c.t)
		patience.Linger(c.t.Context(), time.Duration(rng.Int64N(int64(leaseDuration)*5/4)))
		c.works(nil, who.resume(c.t))
	}},
	{"paused with a write on its way", func(c *contest, who *process, _ *rand.Rand) {
		c.t.Helper()
		const tries = 5
		for try := 1; !c.pauseInWrite(who); try++ {
			if try == tries {
				c.t.Fatalf("no leader had a write on its way in %d tries", tries)
			}
			c.works(nil, time.Now())
			who = c.leader()
		}
	}},
}

// contest is two replicas, their work, and what became of it.
type contest struct {
	*journal
	t         *testing.T
	plane     *controlplane.Plane
	config    *rest.Config
	clients   *kubernetes.Clientset
	namespace string
	ledger    *ledger
	running   []*process
	launched  int
	stopBoss  func()
}

// jobs is how many keys there are.
const jobs = 20

func newContest(t *testing.T) *contest {
	t.Helper()
	plane := shared.Plane(t)
	c := &contest{
		journal: newJournal(), t: t, plane: plane, config: plane.Config(),
		namespace: "contest", ledger: &ledger{writers: map[string]map[int]string{}},
	}
	var err error
	if c.clients, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := c.clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	version := ""
	for i := range jobs {
		job, err := c.clients.CoreV1().ConfigMaps(c.namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%02d", i), Labels: map[string]string{"job": "yes"}},
			Data:       map[string]string{"want": "0"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		version = job.ResourceVersion
	}
	watching, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		if err := c.ledger.watch(watching, c.clients, c.namespace, version); err != nil {
			t.Error(err)
		}
	})
	bossing, stopBoss := context.WithCancel(ctx)
	c.stopBoss = stopBoss
	all.Go(func() { c.boss(bossing) })
	t.Cleanup(func() {
		stop()
		stopBoss()
		all.Wait()
	})
	for range 2 {
		c.launch()
	}
	return c
}

func (c *contest) launch() {
	c.t.Helper()
	c.launched++
	c.running = append(c.running, launch(c.t, c.plane, c.config, c.journal, fmt.Sprintf("replica-%d", c.launched), c.namespace))
}

// replace starts a replica in the place of one that has ended.
func (c *contest) replace(ended *process) {
	c.t.Helper()
	for i, p := range c.running {
		if p == ended {
			c.running = append(c.running[:i], c.running[i+1:]...)
			break
		}
	}
	c.launch()
}

// boss gives work: it changes what is wanted, of one job after the other.
func (c *contest) boss(ctx context.Context) {
	rng := rand.New(rand.NewPCG(*seed, 1))
	for want := 1; ctx.Err() == nil; want++ {
		c.want(ctx, fmt.Sprintf("job-%02d", rng.IntN(jobs)), want)
		patience.Linger(ctx, 15*time.Millisecond)
	}
}

func (c *contest) want(ctx context.Context, job string, want int) {
	patch := fmt.Appendf(nil, `{"data":{"want":"%d"}}`, want)
	_, err := c.clients.CoreV1().ConfigMaps(c.namespace).Patch(ctx, job, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
}

// works waits until a replica works that is another than one.
func (c *contest) works(other *process, since time.Time) {
	c.t.Helper()
	c.await(c.t, "a leader to work", since, func(p *process, l line) bool { return p != other && l.What == reconciled })
}

// pauseInWrite pauses a replica while a write of it has got no further than the proxy, and
// lets that write arrive when another has made it. It reports whether there was one.
func (c *contest) pauseInWrite(who *process) bool {
	c.t.Helper()
	// Give it a lot to do, so that it will write, though it hears of nothing new any more.
	for i := range jobs {
		c.want(c.t.Context(), fmt.Sprintf("job-%02d", i), int(time.Now().UnixMilli()))
	}
	release := who.proxy.Hold()
	held := time.Now()
	_, write := c.await(c.t, who.identity+" to write", held, func(p *process, l line) bool {
		return p == who && (l.What == writing || l.What == lost)
	})
	if write.What == lost {
		release()
		return false
	}
	who.pause(c.t)
	patience.Until(c.t, "another to make the write", func() bool {
		by := c.ledger.writer(write.Key, write.Count)
		return by != "" && by != who.identity
	})
	release()
	resumed := who.resume(c.t)
	c.await(c.t, "the end of the write", resumed, func(p *process, l line) bool {
		return p == who && l.What == wrote && l.Key == write.Key && l.Count == write.Count
	})
	return true
}

// dump logs when who led, and was paused.
func (c *contest) dump() {
	for p, lines := range c.of {
		for _, l := range lines {
			if l.What == led || l.What == lost {
				c.t.Logf("%s %s %s", stamp(l.At), p.identity, l.What)
			}
		}
		for _, s := range p.pauses {
			c.t.Logf("%s to %s %s paused", stamp(s.from), stamp(s.to), p.identity)
		}
	}
}

// settle gives no more work, waits until all is done, and ends the replicas in order.
func (c *contest) settle() {
	c.t.Helper()
	c.stopBoss()
	for i := range jobs {
		c.want(c.t.Context(), fmt.Sprintf("job-%02d", i), -1)
	}
	patience.Until(c.t, "every key to be reconciled", func() bool {
		list, err := c.clients.CoreV1().ConfigMaps(c.namespace).List(c.t.Context(), metav1.ListOptions{LabelSelector: "job=yes"})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, job := range list.Items {
			if job.Data["want"] != job.Data["done"] {
				return false
			}
		}
		return len(list.Items) == jobs
	})
	for _, p := range c.running {
		if err := p.end(syscall.SIGTERM); err != nil {
			c.t.Error(err)
		}
	}
}
