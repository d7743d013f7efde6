package shards

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// task is what a replica is started with, as a line of JSON.
type task struct {
	Member, Host  string
	CA, Cert, Key []byte
	Workers       int
	// Ranges is that of shard.Options.
	Ranges bool
	// Spin makes every reconcile wait for this time, write nothing, and run again at once.
	Spin time.Duration
	// Sample is how often the replica reads its own status.
	Sample time.Duration
	// Plant makes reconciles ignore their context and the fence.
	Plant bool
}

// replica is the whole program of one replica: it makes "done" equal to "want" in each ConfigMap. It ends
// on SIGTERM, or when the process that started it ends.
func replica(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	w := &worker{trace: &trace{out: stdout}}
	if err := json.Unmarshal(text, &w.task); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config := &rest.Config{Host: w.task.Host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: w.task.CA, CertData: w.task.Cert, KeyData: w.task.Key}}
	if err := w.connect(config); err != nil {
		return err
	}
	watched, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.watch(watched)
	}()
	audited := make(chan struct{})
	go func() {
		defer close(audited)
		w.audit(watched)
	}()
	err = w.cluster.Run(ctx)
	end()
	<-ended
	<-audited
	return err
}

// worker does the work of a replica and reports it.
type worker struct {
	task    task
	trace   *trace
	cluster *tarn.Cluster
	maps    *tarn.Mirror[*corev1.ConfigMap]
	client  *tarn.Client[*corev1.ConfigMap]
	leases  *wire.API[*coordinationv1.Lease] // for reads of the assignment

	reconciles, requests atomic.Int64
}

func (w *worker) connect(config *rest.Config) (err error) {
	// The cluster's own requests for Leases are those of the membership.
	count := func(ctx context.Context, start wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
		if start.Call.Resource.Resource == "leases" {
			w.requests.Add(1)
		}
		return ctx, func(wire.AttemptEnd) {}
	}
	w.cluster, err = tarn.Connect(tarn.WithConfig(config), tarn.WithNamespace(home), tarn.WithObservers(nil, count),
		tarn.WithSharding(group, shard.Options{Member: w.task.Member, LeaseDuration: lease, Ranges: w.task.Ranges}),
		tarn.WithTuning(tarn.Tuning{Backoff: reflector.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}}),
		tarn.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))))
	if err != nil {
		return err
	}
	if w.maps, err = tarn.MirrorOf[*corev1.ConfigMap](w.cluster, tarn.Matching(ledgerLabel)); err != nil {
		return err
	}
	w.client = w.maps.Client()
	client, err := wire.New(config, wire.Options{})
	if err != nil {
		return err
	}
	w.leases = wire.For(client, wire.MustOf[*coordinationv1.Lease]())
	reconcile := w.reconcile
	if w.task.Spin > 0 {
		reconcile = w.spin
	}
	_, err = tarn.NewController(w.cluster, "work", reconcile, tarn.For(w.maps), tarn.Workers(w.task.Workers))
	return err
}

// audit compares the mirror with the server again and again. Under faults an audit may fail, but a
// difference is never right.
func (w *worker) audit(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			within, cancel := context.WithTimeout(ctx, 15*time.Second)
			if a, err := w.maps.Audit(within); err == nil && a.Count() > 0 {
				w.trace.report(line{What: wrong, At: time.Now(), Text: fmt.Sprintf("%s: an audit found %v", w.task.Member, a.Differences)})
			}
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) spin(ctx context.Context, _ tarn.Key) (tarn.Result, error) {
	w.reconciles.Add(1)
	patience.Linger(ctx, w.task.Spin)
	return tarn.Result{RequeueAfter: time.Nanosecond}, nil
}

func (w *worker) reconcile(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	obj, err := w.client.Get(ctx, key)
	if err != nil || obj.Data["want"] == obj.Data["done"] {
		return tarn.Result{}, tarn.IgnoreNotFound(err)
	}
	e, err := w.enter(ctx, key)
	if err != nil {
		return tarn.Result{}, err
	}
	w.reconciles.Add(1)
	err = w.work(ctx, obj, e)
	w.trace.report(line{What: reconciled, Key: key.String(), From: e.Began, At: time.Now()})
	return tarn.Result{}, err
}

// enter reads the epoch of a key's slot from the server and checks the fence after that.
func (w *worker) enter(ctx context.Context, key tarn.Key) (entry, error) {
	by := shard.ByNamespace
	if w.task.Ranges {
		by = shard.ByRange
	}
	slot, err := strconv.Atoi(by(key))
	if err != nil {
		return entry{}, err
	}
	stored, err := w.leases.Get(ctx, object.Key{Namespace: home, Name: group + ".slots"}, wire.GetOptions{})
	if err != nil {
		return entry{}, err
	}
	places, err := parsePlaces(stored)
	if err != nil {
		return entry{}, err
	}
	if err := controller.MayWrite(ctx); err != nil {
		return entry{}, err
	}
	e := entry{Replica: w.cluster.Status().Shards.Member, Slot: slot, Epoch: places[slot].epoch, Began: time.Now()}
	if owner := places[slot].owner; owner != e.Replica {
		text := fmt.Sprintf("%s: the fence of slot %d is open, but the server said before that %s owns it", e.Replica, slot, owner)
		w.trace.report(line{What: wrong, At: time.Now(), Text: text})
	}
	return e, nil
}

// work writes an entry, works, and writes another one.
func (w *worker) work(ctx context.Context, obj *corev1.ConfigMap, e entry) error {
	obj, err := w.write(ctx, obj, e)
	if err != nil {
		return err
	}
	wait := time.Duration(20+rolled(obj)%80) * time.Millisecond
	if rolled(obj)%50 == 0 {
		wait = 2 * time.Second
	}
	if w.task.Plant && rolled(obj)%16 == 0 {
		ctx, wait = context.WithoutCancel(ctx), 2*lease // longer than it may own the slot after a fault
	}
	patience.Linger(ctx, wait)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.Ended, obj.Data["done"] = time.Now(), obj.Data["want"]
	_, err = w.write(ctx, obj, e)
	return err
}

// rolled returns a number that looks random and is the same for the same change of an object.
func rolled(obj *corev1.ConfigMap) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(obj.Namespace + obj.Name + obj.Data["want"])) // never fails
	return h.Sum64() >> 20
}

func (w *worker) write(ctx context.Context, obj *corev1.ConfigMap, e entry) (*corev1.ConfigMap, error) {
	if w.task.Plant { // the resource version would detect a late write
		now, err := w.maps.API().Get(ctx, object.Key{Namespace: obj.Namespace, Name: obj.Name}, wire.GetOptions{})
		if err != nil {
			return nil, err
		}
		if !e.Ended.IsZero() {
			now.Data["done"] = obj.Data["done"]
		}
		obj = now
	}
	last, err := parseEntry(obj)
	if err != nil {
		return nil, err
	}
	e.Number, e.Asked = last.Number+1, time.Now()
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	obj.Data[entryField] = string(text)
	if w.task.Plant {
		return w.maps.API().Update(ctx, obj, wire.WriteOptions{}) // without the fence
	}
	return w.client.Update(ctx, obj)
}

// watch reports the status, and times in which the process did not run.
func (w *worker) watch(ctx context.Context) {
	tick := time.NewTicker(w.task.Sample)
	defer tick.Stop()
	last := time.Now()
	said := line{Slots: []shard.Slot{}}
	for {
		now := time.Now()
		if now.Sub(last) > stall {
			w.trace.report(line{What: stalled, From: last, At: now})
		}
		last = now
		next := line{What: status, At: now, Reconciles: w.reconciles.Load(), Requests: w.requests.Load()}
		if s := w.cluster.Status().Shards; s.Active {
			next.Slots, next.Text = s.Slots, s.Member
		}
		if !slices.Equal(next.Slots, said.Slots) || now.Sub(said.At) >= time.Second {
			said = next
			w.trace.report(said)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// stall is the time after which a process that should have run a goroutine counts as stalled. It is
// short compared with the 2.5 seconds that the protocol allows for requests on their way.
const stall = 500 * time.Millisecond
