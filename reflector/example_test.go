package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

type (
	pod      = *corev1.Pod
	podItem  = object.Item[pod]
	podEvent = object.Event[pod]
)

var pods = object.Meta[pod]()

func newPod(name, version string) pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: object.UID("uid-" + name), ResourceVersion: version}}
}

func podItemOf(p pod) podItem {
	it, err := object.ItemOf(pods, p)
	if err != nil {
		panic(err)
	}
	return it
}

// fixed is a source with a list of pods and one watch, which sends events and ends.
func fixed(listed []pod, version object.Version, events ...podEvent) reflector.SourceFuncs[pod] {
	return reflector.SourceFuncs[pod]{
		ListFunc: func(_ context.Context, _ object.ListOptions, _ *object.Intake[pod], sink func(podItem) error) (object.Page, error) {
			for _, p := range listed {
				if err := sink(podItemOf(p)); err != nil {
					return object.Page{}, err
				}
			}
			return object.Page{Version: version}, nil
		},
		WatchFunc: func(ctx context.Context, opts object.WatchOptions, _ *object.Intake[pod]) (object.Stream[pod], error) {
			if opts.InitialEvents {
				return nil, apierrors.NewBadRequest("streaming lists are not supported")
			}
			rest := slices.Clone(events)
			return reflector.StreamFuncs[pod]{NextFunc: func() ([]podEvent, error) {
				if len(rest) > 0 {
					all := rest
					rest = nil
					return all, nil
				}
				<-ctx.Done()
				return nil, io.ErrUnexpectedEOF
			}}, nil
		},
	}
}

func podQueue() *delta.FIFO[pod] {
	fifo, err := delta.New(pods, delta.Options[pod]{})
	if err != nil {
		panic(err)
	}
	return fifo
}

// printUntil pops and prints changes until a version is reached.
func printUntil(ctx context.Context, fifo *delta.FIFO[pod], version object.Version) {
	for reached := false; !reached; {
		err := fifo.PopBatch(ctx, func(b *object.Batch[pod], _ bool) error {
			for _, d := range b.Changes {
				if d.List != nil {
					fmt.Printf("%s: %d pods\n", d.Kind, len(d.List.Items))
				} else {
					fmt.Println(d.Kind, d.Key)
				}
			}
			reached = b.Marks[0].Version == version
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
}

// A reflector feeds a FIFO until its context ends.
func Example() {
	src := fixed([]pod{newPod("web", "4"), newPod("db", "7")}, "9",
		podEvent{Kind: object.Updated, Item: podItemOf(newPod("web", "10"))})
	fifo := podQueue()
	r, err := reflector.New[pod](src, fifo, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()

	printUntil(ctx, fifo, "10")
	cancel()
	fmt.Println("stopped:", <-done)
	// Output:
	// Replaced: 2 pods
	// Updated shop/web
	// stopped: <nil>
}

// Step does one thing at a time: a page, a batch, a request, a wait.
func ExampleReflector_Step() {
	src := fixed([]pod{newPod("web", "4")}, "9", podEvent{Kind: object.Added, Item: podItemOf(newPod("db", "10"))})
	fifo := podQueue()
	r, err := reflector.New[pod](src, fifo, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 5 {
		if err := r.Step(ctx); err != nil {
			fmt.Println(err)
			return
		}
		s := r.Status()
		fmt.Printf("%v, connected %v, at %q\n", s.State, s.Connected, s.Mark.Version)
	}
	cancel()
	fmt.Println(r.Step(ctx), r.Status().State)
	// Output:
	// Streaming, connected false, at ""
	// Listing, connected false, at ""
	// Watching, connected false, at "9"
	// Watching, connected true, at "9"
	// Watching, connected true, at "10"
	// context canceled Stopped
}

// Status has the cause why the mirror is not live.
func ExampleReflector_Status() {
	src := fixed(nil, "9")
	src.ListFunc = func(context.Context, object.ListOptions, *object.Intake[pod], func(podItem) error) (object.Page, error) {
		return object.Page{}, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no list for you"))
	}
	r, err := reflector.New[pod](src, podQueue(), reflector.Options[pod]{Name: "pods", Streaming: reflector.StreamingOff,
		Rand: func() float64 { return 0 }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	r.Step(ctx)
	r.Step(ctx)
	s := r.Status()
	fmt.Println(s)
	fmt.Println(apierrors.IsForbidden(s.Cause), s.Counts.Ended[reflector.Forbidden])
	// Output:
	// pods: BackingOff 800ms: reflector pods: list: pods is forbidden: no list for you
	// true 1
}

// Objects that cannot be decoded or transformed are quarantined; the others are delivered.
func ExampleReflector_Quarantine() {
	src := fixed([]pod{newPod("web", "4"), newPod("db", "7")}, "9")
	r, err := reflector.New[pod](src, podQueue(), reflector.Options[pod]{
		Transform: func(p pod) (pod, error) {
			if p.Name == "db" {
				return nil, errors.New("annotation of 3 MB")
			}
			p.ManagedFields = nil
			return p, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	for !r.Status().Synced {
		r.Step(ctx)
	}
	for _, q := range r.Quarantine() {
		fmt.Println(q.Key, q.Version, q.Cause)
	}
	cancel()
	r.Step(ctx)
	// Output:
	// shop/db 7 transform: annotation of 3 MB
}

// OnError receives every failure and its reason, for example for a metric.
func ExampleOptions_onError() {
	src := fixed(nil, "9")
	src.WatchFunc = func(_ context.Context, opts object.WatchOptions, _ *object.Intake[pod]) (object.Stream[pod], error) {
		if opts.InitialEvents {
			return nil, apierrors.NewBadRequest("streaming lists are not supported")
		}
		return nil, apierrors.NewTooManyRequests("the server is busy", 5)
	}
	r, err := reflector.New[pod](src, podQueue(), reflector.Options[pod]{
		Name: "pods",
		OnError: func(err error) {
			if e := (*reflector.Error)(nil); errors.As(err, &e) {
				fmt.Printf("%s failed: %s\n", e.Op, e.Reason)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for r.Status().State != reflector.BackingOff {
		r.Step(ctx)
	}
	s := r.Status()
	fmt.Println("waits for at least 5s:", s.Until.Sub(s.Since).Seconds() >= 5)
	fmt.Println("streaming lists:", strings.SplitN(s.Streaming.WhyNot, ":", 2)[0])
	// Output:
	// streaming list failed: rejected
	// watch failed: throttled
	// waits for at least 5s: true
	// streaming lists: rejected
}

// The reflectors of one cluster share a budget for their lists.
func ExampleNewBudget() {
	budget := reflector.NewBudget(4)
	for _, name := range []string{"pods", "services"} {
		r, err := reflector.New[pod](fixed(nil, "9"), podQueue(), reflector.Options[pod]{Name: name, Budget: budget})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Name())
	}
	fmt.Printf("%d of %d in use\n", budget.InUse(), budget.Size())
	// Output:
	// pods
	// services
	// 0 of 4 in use
}
