package leader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// task is what a replica is started with, as a line of JSON.
type task struct {
	Identity, Namespace, Host string
	CA, Cert, Key             []byte
}

// replica is the whole program of one replica: it sees to it that "done" is what "want" is
// in each config map of a namespace. It ends on a signal, or when the process
// that started it ends.
func replica(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var do task
	if err := json.Unmarshal(text, &do); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	config := &rest.Config{Host: do.Host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: do.CA, CertData: do.Cert, KeyData: do.Key}}
	cluster, err := tarn.Connect(tarn.WithConfig(config), tarn.WithTuning(tarn.Tuning{Backoff: reflector.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}}))
	if err != nil {
		return err
	}
	jobs, err := tarn.MirrorOf[*corev1.ConfigMap](cluster, tarn.InNamespaces(do.Namespace), tarn.Matching("job=yes"))
	if err != nil {
		return err
	}
	w := &worker{identity: do.Identity, trace: &trace{out: stdout}}
	w.jobs, w.tracked = jobs.API(), controller.Track(jobs.Informer())
	watched := rest.CopyConfig(config)
	watched.Wrap(func(rt http.RoundTripper) http.RoundTripper { return watchedTransport{rt, w} })
	client, err := wire.New(watched, wire.Options{})
	if err != nil {
		return err
	}
	elector, err := leader.New(client, object.Key{Namespace: do.Namespace, Name: "work"}, leader.Options{
		Identity:      do.Identity,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
	})
	if err != nil {
		return err
	}
	// One worker, so that it is known of which question to the fence a reconcile is the
	// consequence.
	c, err := controller.New("work", w.reconcile, controller.Options[object.Key]{SyncTimeout: -1}, controller.For(jobs.Informer()))
	if err != nil {
		return err
	}
	err = controller.Run(ctx, cluster, controller.WhileLeading(watchedLeadership{elector, w}, c))
	if left := (*controller.UnfinishedError[object.Key])(nil); errors.As(err, &left) && len(left.Running) == 0 {
		return nil // who ends leaves the rest to others
	}
	return err
}

// worker does a replica's work and reports what it does.
type worker struct {
	identity string
	trace    *trace
	jobs     *wire.API[*corev1.ConfigMap]
	tracked  *controller.Tracked[*corev1.ConfigMap]

	mu       sync.Mutex // guards what follows
	deadline time.Time  // of the lease
	asked    time.Time  // when the fence was last asked and said yes
	known    time.Time  // the deadline as it was known after that
}

// began reports the start of work that the fence has permitted.
func (w *worker) began(what whatDone, key object.Key, count int) {
	at := time.Now()
	w.mu.Lock()
	l := line{What: what, Key: key.Name, At: at, Asked: w.asked, Deadline: w.known, Count: count}
	w.mu.Unlock()
	w.trace.tell(l)
}

func (w *worker) reconcile(ctx context.Context, key object.Key) (controller.Result, error) {
	w.began(reconciled, key, 0)
	// Work takes time, in which things may happen.
	patience.Linger(ctx, time.Duration(len(key.Name)+int(key.Name[len(key.Name)-1])%16)*time.Millisecond)
	job, ok, err := w.tracked.Get(key)
	if err != nil || !ok || job.Data["want"] == job.Data["done"] {
		return controller.Result{}, err
	}
	job = job.DeepCopy()
	count, _ := strconv.Atoi(job.Data["count"])
	job.Data["done"], job.Data["by"], job.Data["count"] = job.Data["want"], w.identity, strconv.Itoa(count+1)
	_, err = w.tracked.Write(ctx, key, func(ctx context.Context) (*corev1.ConfigMap, error) {
		w.began(writing, key, count+1) // the fence has permitted it
		return w.jobs.Update(ctx, job, wire.WriteOptions{})
	})
	w.trace.tell(line{What: wrote, Key: key.Name, At: time.Now(), Count: count + 1, How: how(err)})
	return controller.Result{}, err
}

func how(err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsConflict(err):
		return conflict
	case errors.Is(err, controller.ErrNotLeading):
		return notLeader
	case errors.Is(err, context.Canceled):
		return cancelled
	}
	return err.Error()
}

// watchedTransport knows the lease's deadline by itself, without what it is to test.
type watchedTransport struct {
	http.RoundTripper
	w *worker
}

func (t watchedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	if req.GetBody == nil {
		return t.RoundTripper.RoundTrip(req)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil && resp.StatusCode < 300 {
		t.w.mu.Lock()
		defer t.w.mu.Unlock()
		t.w.deadline = sent // released
		if holder := obj.(*coordinationv1.Lease).Spec.HolderIdentity; holder != nil && *holder == t.w.identity {
			t.w.deadline = sent.Add(leaseDuration)
		}
	}
	return resp, err
}

// watchedLeadership watches over the fences that it hands out.
type watchedLeadership struct {
	controller.Leadership
	w *worker
}

func (l watchedLeadership) Run(ctx context.Context, lead func(context.Context, controller.Fence) error) error {
	return l.Leadership.Run(ctx, func(ctx context.Context, fence controller.Fence) error {
		l.w.trace.tell(line{What: led, At: time.Now()})
		err := lead(ctx, watchedFence{fence, l.w})
		l.w.trace.tell(line{What: lost, At: time.Now()})
		return err
	})
}

type watchedFence struct {
	controller.Fence
	w *worker
}

func (f watchedFence) Check() error {
	asked := time.Now()
	err := f.Fence.Check()
	if err == nil {
		f.w.mu.Lock()
		defer f.w.mu.Unlock()
		f.w.asked, f.w.known = asked, f.w.deadline
	}
	return err
}
