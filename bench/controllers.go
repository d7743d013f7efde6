package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	tarnroot "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/bench/pods"
)

// Ten controllers of pods reconcile changes that the embedded server of another process makes at
// a fixed rate. A reconcile looks the pod up in the cache, as most do that find nothing to do.

const (
	controllers       = 10
	controllerObjects = 1_000
	controllerRate    = 1_000 // changes a second
	// controllerServeArg is the first argument of the server's process.
	controllerServeArg = "controllers-serve"
	// sequence is an annotation with the number of a change, as in "change-0000123", which
	// is found in the bytes of a connection.
	sequence       = "bench.example.com/change"
	sequencePrefix = "change-"
	sequenceDigits = 7
)

// controllerServe is the server: it prints its address, makes the changes when stdin has a
// line, and runs until stdin ends.
func controllerServe(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := func() (err error) {
		defer recovered(&err)
		if len(args) != 1 {
			return errors.New("the server has one argument, a number of changes")
		}
		changes, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		server, err := apiserver.New(apiserver.Options{Address: "127.0.0.1:0", AnyNamespace: true})
		check(err)
		ran := make(chan error, 1)
		go func() { ran <- server.Run(ctx) }()
		all := pods.Generate(pods.Options{Objects: controllerObjects})
		for _, p := range all {
			p.UID, p.ResourceVersion = "", ""
			_, err := server.Create(p)
			check(err)
		}
		fmt.Fprintln(stdout, server.Config().Host)
		line := make([]byte, 1)
		if _, err := stdin.Read(line); err != nil {
			return err
		}
		began := time.Now()
		for n := range changes {
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / controllerRate)))
			p := all[n%len(all)]
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, sequence, fmt.Sprintf("%s%0*d", sequencePrefix, sequenceDigits, n))
			_, err := server.Update(p)
			check(err)
		}
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
		return <-ran
	}()
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// reconciled counts the reconciles of all controllers.
type reconciled struct {
	count   atomic.Int64
	left    atomic.Int64 // reconciles of the last change of a pod that are left
	done    chan struct{}
	arrived []atomic.Int64 // when the bytes of a change arrived, or 0
	mu      sync.Mutex     // guards latency
	latency *histogram     // from the arrival to the reconcile
}

func newReconciled(changes int) *reconciled {
	r := &reconciled{done: make(chan struct{}), arrived: make([]atomic.Int64, changes), latency: new(histogram)}
	r.left.Store(controllers * controllerObjects)
	return r
}

// saw is called by each reconcile with the annotation of its object.
func (r *reconciled) saw(change string) {
	r.count.Add(1)
	if len(change) != len(sequencePrefix)+sequenceDigits {
		return // not changed yet
	}
	n, err := strconv.Atoi(change[len(sequencePrefix):])
	check(err)
	if at := r.arrived[n].Load(); at > 0 {
		took := now() - at
		r.mu.Lock()
		r.latency.add(took)
		r.mu.Unlock()
	}
	if n >= len(r.arrived)-controllerObjects && r.left.Add(-1) == 0 {
		close(r.done)
	}
}

// controllersJob runs the controllers of a side. With Control it also finds the changes in the bytes
// that arrive, which costs CPU.
func controllersJob(j job) sample {
	self, err := os.Executable()
	check(err)
	changes := min(10_000, j.Objects)
	cmd := exec.Command(self, controllerServeArg, strconv.Itoa(changes))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdin, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	var host string
	if _, err := fmt.Fscanln(out, &host); err != nil {
		fail("the server did not start: %v: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	seen := newReconciled(changes)
	cfg := &rest.Config{Host: host, QPS: -1}
	if j.Control {
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &scannedConn{Conn: conn, seen: seen}, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() {
		if j.Side == sideRuntime {
			ran <- runtimeControllers(ctx, cfg, seen)
		} else {
			ran <- tarnControllers(ctx, cfg, seen, j.Shared)
		}
	}()
	for seen.count.Load() < controllers*controllerObjects {
		select {
		case err := <-ran:
			fail("the controllers ended: %v", err)
		case <-time.After(10 * time.Millisecond): // until the first reconcile of each pod
		}
	}
	meter := j.begin()
	_, err = stdin.Write([]byte("\n"))
	check(err)
	<-seen.done
	s := meter.end(controllers * changes)
	s.Values = map[string]float64{
		"p50": s.Ops * float64(seen.latency.quantile(0.5)), "p99": s.Ops * float64(seen.latency.quantile(0.99)),
	}
	cancel()
	check(<-ran)
	check(stdin.Close())
	check(cmd.Wait())
	return s
}

// runtimeControllers runs the controllers with controller-runtime.
func runtimeControllers(ctx context.Context, cfg *rest.Config, seen *reconciled) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
	if err != nil {
		return err
	}
	for n := range controllers {
		if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Named(fmt.Sprintf("bench-%d", n)).Complete(runtimeReconciler{mgr.GetClient(), seen}); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

type runtimeReconciler struct {
	client.Client
	seen *reconciled
}

// Reconcile implements reconcile.Reconciler.
func (r runtimeReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var p corev1.Pod
	if err := r.Get(ctx, request.NamespacedName, &p); err != nil {
		return ctrl.Result{}, err
	}
	r.seen.saw(p.Annotations[sequence])
	return ctrl.Result{}, nil
}

// tarnControllers runs the controllers with Tarn. They read copies, as controller-runtime's
// do, or the shared objects of the mirror.
func tarnControllers(ctx context.Context, cfg *rest.Config, seen *reconciled, shared bool) error {
	cluster, err := tarnroot.Connect(tarnroot.WithConfig(cfg))
	if err != nil {
		return err
	}
	mirror, err := tarnroot.MirrorOf[*corev1.Pod](cluster)
	if err != nil {
		return err
	}
	copies := mirror.Client()
	reconcile := func(ctx context.Context, key tarnroot.Key) (tarnroot.Result, error) {
		if shared {
			if p, ok := mirror.Get(key); ok {
				seen.saw(p.Annotations[sequence])
			}
			return tarnroot.Result{}, nil
		}
		p, err := copies.Get(ctx, key)
		if err != nil {
			return tarnroot.Result{}, err
		}
		seen.saw(p.Annotations[sequence])
		return tarnroot.Result{}, nil
	}
	for n := range controllers {
		if _, err := tarnroot.NewController(cluster, fmt.Sprintf("bench-%d", n), reconcile, tarnroot.For(mirror)); err != nil {
			return err
		}
	}
	return cluster.Run(ctx)
}

// scannedConn records when changes arrive.
type scannedConn struct {
	net.Conn
	seen *reconciled
	tail []byte // of the last read, in case that it ends in the middle of a number
}

// Read implements net.Conn.
func (c *scannedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	at := now()
	text := append(c.tail, p[:n]...)
	size := len(sequencePrefix) + sequenceDigits
	for {
		i := bytes.Index(text, []byte(sequencePrefix))
		if i < 0 || len(text) < i+size {
			break
		}
		if number, err := strconv.Atoi(string(text[i+len(sequencePrefix) : i+size])); err == nil {
			c.seen.arrived[number].CompareAndSwap(0, at)
		}
		text = text[i+size:]
	}
	c.tail = append(c.tail[:0], text[max(0, len(text)-size):]...)
	return n, err
}

// controllerRows measures ten controllers at a fixed rate of changes.
func controllerRows(l *lab) []Row {
	name := fmt.Sprintf(" %d controllers of pods, %s changes a second", controllers, number(controllerRate))
	j := job{Measure: "controllers"}
	s := l.turns(l.fewRounds(), j, sideRuntime, sideTarn)
	j.Shared = true
	shared := l.turns(l.fewRounds(), j, sideTarn)[0]
	j.Control = true
	timed := l.turns(l.fewRounds(), j, sideRuntime, sideTarn)
	rows := []Row{
		newRow("40"+name+", CPU of a reconcile that reads a copy", cpuEach(s[0]), cpuEach(s[1])),
		newRow("40"+name+", CPU of a reconcile, Tarn's reads the shared pod", cpuEach(s[0]), cpuEach(shared), better(4, "less CPU")),
		newRow("+"+name+", arrival of the frame to the reconcile, p50", value(timed[0], Nanoseconds, "p50"), value(timed[1], Nanoseconds, "p50")),
		newRow("40"+name+", arrival of the frame to the reconcile, p99", value(timed[0], Nanoseconds, "p99"), value(timed[1], Nanoseconds, "p99"), better(3, "sooner")),
	}
	for i := range rows {
		rows[i].Peer = sideRuntime
	}
	return rows
}
