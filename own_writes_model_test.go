package tarn_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

var (
	ownSeed  = flag.Uint64("own.seed", 0, "run just this seed of the model of own writes and print its trace")
	ownFirst = flag.Uint64("own.first", 1, "the first of the seeds")
)

// ownModel is one random history: a client writes and reads a few keys while other writers change them,
// responses come late or are lost, and the watch lags, is cut, has to list again or is rewound.
type ownModel struct {
	*oracle
	rand   *rand.Rand
	parts  []string // what its mirror has, of ownParts
	srv    *apiserver.Server
	mirror *tarn.Mirror[*corev1.ConfigMap]
	client *tarn.Client[*corev1.ConfigMap]
	shard  *tarn.Shard
	keys   []tarn.Key
	absent atomic.Bool // the namespace "bank" is not mirrored now
	writes sync.WaitGroup
	reads  sync.WaitGroup
	within *ownReconciles // nil: reads and writes are in no reconcile

	// serving has room for one: all changes of the server are made one after the other.
	serving chan struct{}

	faults sync.Mutex    // guards all below
	slow   time.Duration // until the next request reaches the server
	late   time.Duration
	lost   bool
	lag    time.Time // until then watches deliver nothing
}

// ownFaults are the faults of the connection.
type ownFaults struct {
	http.RoundTripper
	m *ownModel
}

// servedKey is the key of a context's *int, which is set to the number of the history in which a write is served.
type servedKey struct{}

var errLost = errors.New("the response was lost")

func (f ownFaults) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		resp, err := f.RoundTripper.RoundTrip(req)
		if err == nil && strings.Contains(req.URL.RawQuery, "watch=") {
			resp.Body = ownLag{resp.Body, req.Context(), f.m}
		}
		return resp, err
	}
	f.m.faults.Lock()
	slow := f.m.slow
	f.m.slow = 0
	f.m.faults.Unlock()
	<-time.After(slow)
	f.m.serving <- struct{}{}
	if served, ok := req.Context().Value(servedKey{}).(*int); ok {
		*served, _ = f.m.ackedSo(tarn.Key{})
	}
	resp, err := f.RoundTripper.RoundTrip(req)
	if err == nil { // all of it, before the next change
		var body []byte
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	f.m.record()
	<-f.m.serving
	f.m.faults.Lock()
	late, lost := f.m.late, f.m.lost
	f.m.late, f.m.lost = 0, false
	f.m.faults.Unlock()
	<-time.After(late)
	if lost {
		return nil, errLost
	}
	return resp, err
}

// ownLag delays what is read from a watch.
type ownLag struct {
	io.ReadCloser
	ctx context.Context
	m   *ownModel
}

func (l ownLag) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	for {
		l.m.faults.Lock()
		wait := time.Until(l.m.lag)
		l.m.faults.Unlock()
		if wait <= 0 {
			return n, err
		}
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
			return n, l.ctx.Err()
		}
	}
}

var configMaps = wire.MustOf[*corev1.ConfigMap]()

// now returns the object of a key as the server has it, or nil.
func (m *ownModel) now(key tarn.Key) *corev1.ConfigMap {
	obj, err := m.srv.Get(configMaps.GVR(), key)
	if err != nil {
		return nil
	}
	return obj.(*corev1.ConfigMap)
}

// record records the change that was just made.
func (m *ownModel) record() {
	for _, key := range m.keys {
		m.changed(key, m.srv.Version(), m.now(key))
	}
}

// change makes a change for another writer.
func (m *ownModel) change(f func()) {
	m.serving <- struct{}{}
	f()
	m.record()
	<-m.serving
}

func (m *ownModel) one(n int) bool { return m.rand.IntN(n) == 0 }

func (m *ownModel) object(key tarn.Key) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{}}}
	m.edit(c)
	if m.one(4) {
		c.Finalizers = []string{"example.com/f"}
	}
	return c
}

// edit changes an object as any writer might.
func (m *ownModel) edit(c *corev1.ConfigMap) {
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	delete(c.Labels, "bad")
	c.Labels["app"] = "web"
	if m.one(3) {
		delete(c.Labels, "app")
	}
	if m.is("quarantine") && m.one(3) {
		c.Labels["bad"] = "1"
	}
	c.Data = map[string]string{"n": strconv.Itoa(m.rand.IntN(100))}
}

// foreign is a change by another writer.
func (m *ownModel) foreign(key tarn.Key) {
	fresh, kind, edited := m.object(key), m.rand.IntN(4), m.object(key)
	m.change(func() {
		old := m.now(key)
		switch {
		case old == nil && kind > 0:
			_, _ = m.srv.Create(fresh)
		case old == nil:
		case kind == 0:
			_ = m.srv.Delete(old)
		default:
			next := old.DeepCopy()
			next.Labels, next.Data = edited.Labels, edited.Data
			if kind == 1 {
				next.Finalizers = nil
			}
			_, _ = m.srv.Update(next)
		}
	})
}

// own is a write of the client. Its response may come late.
func (m *ownModel) own(ctx context.Context, key tarn.Key) {
	fresh, patch := m.object(key), map[string]any{"data": map[string]any{"n": strconv.Itoa(m.rand.IntN(100))}}
	set := func(label, value string, on bool) any {
		if on {
			return value
		}
		return nil
	}
	patch["metadata"] = map[string]any{"labels": map[string]any{
		"app": set("app", "web", !m.one(3)), "bad": set("bad", "1", m.is("quarantine") && m.one(3)),
	}}
	kind, whole := m.rand.IntN(9), !m.is("quarantine")
	m.faults.Lock()
	if m.one(4) {
		m.slow = time.Duration(m.rand.IntN(3000)) * time.Millisecond
	}
	if m.one(2) {
		m.late = time.Duration(m.rand.IntN(3000)) * time.Millisecond
	}
	m.lost = m.one(12)
	m.note("own write %d of %s, slow %v, late %v, lost %v", kind, key, m.slow, m.late, m.lost)
	m.faults.Unlock()
	number, _ := m.ackedSo(key)
	m.run(ctx, &m.writes, func(ctx context.Context) error {
		begin, served := m.srv.Version(), 0
		ctx = context.WithValue(ctx, servedKey{}, &served)
		var obj *corev1.ConfigMap
		var err error
		switch kind {
		case 0, 1:
			obj, err = m.client.Create(ctx, fresh)
		case 2, 3:
			obj, err = m.client.Patch(ctx, key, wire.MergePatchOf(patch))
		case 4:
			obj, err = m.client.Apply(ctx, corev1apply.ConfigMap(key.Name, key.Namespace).WithLabels(fresh.Labels).WithData(fresh.Data), tarn.Force())
		case 5:
			obj, err = m.client.Patch(ctx, key, wire.MergePatchOf(map[string]any{"metadata": map[string]any{"finalizers": nil}}))
		case 6, 7:
			if err = m.client.Delete(ctx, key); err == nil {
				if served != number {
					begin = 0
				}
				m.ack(key, floor{number: served, begin: begin, end: m.srv.Version(), unseen: !m.readable(key)})
			}
			return err
		default:
			if !whole {
				return nil
			}
			_, at := m.ackedSo(key)
			var outcome tarn.Outcome
			obj, outcome, err = m.client.CreateOrUpdate(ctx, fresh, func(c *corev1.ConfigMap) error {
				if c.Labels == nil {
					c.Labels = map[string]string{}
				}
				c.Labels["app"], c.Data = "web", fresh.Data
				return nil
			})
			if err == nil && outcome == tarn.OutcomeUnchanged {
				m.read(reading{number: number, how: "unchanged", key: key, begin: at, end: m.srv.Version(), uid: obj.UID, version: version(obj.ResourceVersion)})
				return nil
			}
		}
		if err != nil {
			return err
		}
		f := floor{number: served, unseen: !m.readable(key), version: version(obj.ResourceVersion), written: true, is: m.stateOf(obj)}
		if obj.DeletionTimestamp != nil && len(obj.Finalizers) == 0 {
			f.uid = obj.UID
		}
		m.ack(key, f)
		return nil
	})
}

// readable reports whether the mirror is to have the namespace of a key.
func (m *ownModel) readable(key tarn.Key) bool { return !m.absent.Load() || key.Namespace != "bank" }

// get is a read of a key, with or without waiting.
func (m *ownModel) get(ctx context.Context, key tarn.Key, wait bool) {
	if !m.readable(key) {
		return
	}
	m.note("get %s", key)
	number, _ := m.ackedSo(key)
	m.run(ctx, &m.reads, func(ctx context.Context) error {
		_, begin := m.ackedSo(key)
		r := reading{number: number, how: "get", key: key, begin: begin}
		var obj *corev1.ConfigMap
		if wait {
			obj, r.err = m.client.Get(ctx, key)
		} else {
			var ok bool
			r.how, r.sharded = "peek", m.is("shard") // Get of a tarn.Client asks the server
			obj, ok, r.err = controller.Track(m.mirror.Informer()).Get(key)
			if !ok {
				obj = nil
			}
		}
		r.end = m.srv.Version()
		if obj != nil && r.err == nil {
			r.uid, r.version = obj.UID, version(obj.ResourceVersion)
		}
		if !held(r.err) {
			m.read(r)
		}
		return r.err
	})
}

// list is a read of a namespace, or of everything that is mirrored.
func (m *ownModel) list(ctx context.Context) {
	scope := []tarn.Scope{tarn.InNamespaces("shop")}
	if m.one(2) && !m.absent.Load() {
		scope = nil
	}
	m.note("list %v", len(scope))
	number, _ := m.ackedSo(m.keys[0])
	m.run(ctx, &m.reads, func(ctx context.Context) error {
		begin := map[tarn.Key]int{}
		for _, key := range m.keys {
			if key.Namespace == "shop" || scope == nil {
				_, begin[key] = m.ackedSo(key)
			}
		}
		objs, err := m.client.List(ctx, scope...)
		if held(err) {
			return err
		}
		found := map[tarn.Key]*corev1.ConfigMap{}
		for _, obj := range objs {
			found[key(obj.Namespace, obj.Name)] = obj
		}
		end := m.srv.Version()
		if err != nil {
			var errs []error
			for _, key := range m.keys {
				if n, ok := begin[key]; ok {
					r := reading{number: number, how: "list", key: key, begin: n, end: end, err: err}
					m.mu.Lock()
					var failed error
					if number == m.number {
						failed = m.judge(&r)
					}
					m.mu.Unlock()
					errs = append(errs, failed)
				}
			}
			for _, unexplained := range errs {
				if unexplained == nil { // one of the objects explains it
					return err
				}
			}
		}
		for key, n := range begin {
			r := reading{number: number, how: "list", key: key, begin: n, end: end, err: err, sharded: m.is("shard")}
			if obj := found[key]; obj != nil {
				r.uid, r.version = obj.UID, version(obj.ResourceVersion)
			}
			m.read(r)
		}
		return err
	})
}

// disturb makes the watch lag, breaks it, or changes what is mirrored.
func (m *ownModel) disturb(ctx context.Context) (errs []error) {
	switch kind := m.rand.IntN(10); kind {
	case 0, 1, 2, 3:
		m.faults.Lock()
		m.lag = time.Now().Add(time.Duration(m.rand.IntN(4000)) * time.Millisecond)
		m.faults.Unlock()
		m.note("lag")
	case 4, 5:
		m.srv.Cut("configmaps")
		m.note("cut")
	case 6:
		m.srv.Compact(0)
		m.srv.Cut("configmaps")
		m.note("relist")
	case 7:
		if m.one(2) {
			errs = m.rewind()
		}
	default:
		switch shard, namespaces := m.is("shard"), m.is("namespaces"); {
		case shard && (!namespaces || m.one(2)):
			n := 1 + m.rand.IntN(2)
			m.divide(object.Part(object.ByUID, m.rand.IntN(n), n))
		case namespaces:
			m.reads.Wait()
			m.absent.Store(!m.absent.Load())
			namespaces := []string{"shop", "bank"}
			if m.absent.Load() {
				namespaces = namespaces[:1]
				m.unsee(m.keys[2])
			}
			m.note("namespaces %v", namespaces)
			if err := m.mirror.Informer().SetNamespaces(namespaces...); err != nil {
				return []error{err}
			}
			if !m.absent.Load() {
				if err := m.mirror.Informer().WaitSynced(ctx); err != nil {
					return []error{err}
				}
			}
		}
	}
	return errs
}

// rewind restores the server from a backup, and waits until the mirror has found out. Requests, responses and
// reads may be on their way.
func (m *ownModel) rewind() []error {
	m.serving <- struct{}{}
	before := m.epoch()
	m.note("rewind")
	is, errs := m.another(func() bool {
		was := m.srv.Version()
		m.srv.Rewind(1 + m.rand.IntN(5))
		return m.srv.Version() != was
	})
	m.record()
	<-m.serving
	if !is {
		return errs
	}
	// A watch from a version that the server does not have any more may not find out by itself.
	m.mirror.Informer().Relist(errors.New("a backup was restored"))
	for range 120 { // it cannot if it was not further than the backup
		if m.epoch() > before {
			break
		}
		simtest.Advance(time.Second / 2)
	}
	return errs
}

// epoch returns the earliest epoch of what is mirrored.
func (m *ownModel) epoch() (first object.Epoch) {
	m.mirror.View(func(snap tarn.Snapshot[*corev1.ConfigMap]) {
		first = math.MaxInt
		for mark := range snap.Marks() {
			first = min(first, mark.Epoch)
		}
	})
	return first
}

// ownParts are what a mirror may have, in any combination, and whether it is used in reconciles.
const ownParts = "labels namespaces shard quarantine compact reconcile"

func (m *ownModel) is(part string) bool { return slices.Contains(m.parts, part) }

// divide changes the shard.
func (m *ownModel) divide(shard object.Shard) {
	m.mu.Lock()
	m.shards = append(m.shards, shard)
	m.mu.Unlock()
	m.note("shard %v", shard)
	m.shard.Set(shard)
}

func runOwnWrites(t *testing.T, seed uint64) (trace string, errs []error) {
	r := rand.New(rand.NewPCG(seed, 28))
	m := &ownModel{
		rand: r, serving: make(chan struct{}, 1),
		oracle: &oracle{history: map[tarn.Key][]state{}, acked: map[tarn.Key][]floor{}},
		keys:   []tarn.Key{key("shop", "a"), key("shop", "b"), key("bank", "a")},
	}
	for _, part := range strings.Fields(ownParts) {
		if r.IntN(3) == 0 {
			m.parts = append(m.parts, part)
		}
	}
	m.note("%v", m.parts)
	m.selects = func(*corev1.ConfigMap) bool { return true }
	m.srv = apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
	config := m.srv.MemoryConfig()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return ownFaults{rt, m} })
	cluster := connect(t, tarn.WithConfig(config), tarn.WithLogger(slog.New(slog.DiscardHandler)), tarn.WithFieldManager("own"))
	var opts []tarn.Option
	if m.is("labels") {
		opts = append(opts, tarn.Matching("app=web"))
		m.selects = func(c *corev1.ConfigMap) bool { return c.Labels["app"] == "web" }
	}
	if m.is("namespaces") {
		opts = append(opts, tarn.InNamespaces("shop", "bank"))
	}
	if m.is("shard") {
		m.shard = tarn.NewShard(object.Part(object.ByUID, 0, 1))
		opts = append(opts, tarn.InShard(m.shard))
	}
	if m.is("compact") {
		opts = append(opts, tarn.Compact())
	}
	if m.is("quarantine") {
		m.mirror = must(tarn.MirrorTransformed(cluster, configMaps, tarn.NewTransform("picky", func(c *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			if c.Labels["bad"] != "" {
				return nil, errors.New("it is bad")
			}
			return c, nil
		}), opts...))
	} else {
		m.mirror = must(tarn.MirrorOf[*corev1.ConfigMap](cluster, opts...))
	}
	m.client = m.mirror.Client()
	if m.is("reconcile") {
		m.reconcile(cluster)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	defer func() {
		cancel()
		errs = append(errs, <-done)
	}()
	if _, err := m.srv.Inject(apiserver.Fault{Kind: apiserver.StaleCache, Resource: "configmaps", Verb: "list", Wait: 2 * time.Second, Optional: true}); err != nil {
		return "", []error{err}
	}
	reads, end := context.WithTimeout(ctx, time.Hour) // of virtual time: no read may take that long
	defer end()
	for range 12 + r.IntN(20) {
		key := m.keys[r.IntN(len(m.keys))]
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			m.own(ctx, key)
		case 4, 5:
			m.foreign(key)
		case 6, 7, 8:
			m.get(reads, key, m.one(2))
		case 9:
			m.list(reads)
		default:
			errs = append(errs, m.disturb(ctx)...)
		}
		if m.one(2) {
			simtest.Advance(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
		synctest.Wait()
	}
	m.writes.Wait()
	m.reads.Wait()
	m.within = nil
	for _, key := range m.keys {
		m.get(reads, key, true)
	}
	m.list(reads)
	m.reads.Wait()
	errs = append(errs, m.verdict()...)
	// Nothing is kept for ever, except about objects that are still unreadable.
	simtest.Advance(10 * time.Minute)
	unreadable := 0
	for _, key := range m.keys {
		if now := m.now(key); now != nil && now.Labels["bad"] != "" {
			unreadable++
		}
	}
	// Of each there may be the last write inside of the selection and the last one outside.
	if n := m.mirror.Informer().Status().PendingWrites; n > 2*unreadable {
		errs = append(errs, fmt.Errorf("%d writes are still tracked, with %d objects in quarantine", n, unreadable))
	}
	return m.String(), errs
}

// No read after a write of this process shows a state from before it (R01), waits in vain for an object that
// the mirror will never have (R02), or leaves anything behind.
func TestR01_OwnWritesAreReadInEveryHistory(t *testing.T) {
	seeds := soak.Rounds(2000)
	first := *ownFirst
	if *ownSeed != 0 {
		first, seeds = *ownSeed, 1
	}
	for seed := first; seed < first+uint64(seeds); seed++ {
		var trace string
		var errs []error
		synctest.Test(t, func(t *testing.T) { trace, errs = runOwnWrites(t, seed) })
		if err := errors.Join(errs...); err != nil || *ownSeed != 0 {
			t.Logf("seed %d:\n%s", seed, trace)
			if err != nil {
				t.Fatalf("%v\nrepeat with -run '%s' -own.seed=%d", err, t.Name(), seed)
			}
		}
	}
}
