package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

type pod = *corev1.Pod

func podQueue() *delta.Buffer[pod] {
	buffer, err := delta.NewBuffer[pod](delta.BufferOptions{})
	if err != nil {
		panic(err)
	}
	return buffer
}

// printUntil pops and prints changes until a version is reached.
func printUntil(ctx context.Context, buffer *delta.Buffer[pod], version object.Version) {
	for reached := false; !reached; {
		err := buffer.PopBatch(ctx, func(b *object.Batch[pod]) error {
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

// A reflector feeds a buffer until its context ends.
func Example() {
	server := simtest.Pods("shop/db", "shop/web") // versions 101 and 102
	var src reflector.Source[pod] = server
	buffer := podQueue()
	r, err := reflector.New[pod](src, buffer, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()

	printUntil(ctx, buffer, "102")
	server.Set("shop/web")
	printUntil(ctx, buffer, "103")
	cancel()
	fmt.Println("stopped:", <-done)
	// Output:
	// Replaced: 2 pods
	// Updated shop/web
	// stopped: <nil>
}

// Step does one thing at a time: a page, a batch, a request, a wait.
func ExampleReflector_Step() {
	src := simtest.Pods("shop/web") // version 101
	buffer := podQueue()
	r, err := reflector.New[pod](src, buffer, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range 5 {
		if i == 4 {
			src.Set("shop/db")
		}
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
	// Watching, connected false, at "101"
	// Watching, connected true, at "101"
	// Watching, connected true, at "102"
	// context canceled Stopped
}

// Status has the cause why the mirror is not live.
func ExampleReflector_Status() {
	src := simtest.Pods()
	src.Refuse("", apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no list for you")))
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

// Wake retries at once instead of waiting out the back-off, for example when the missing
// permission has been granted.
func ExampleReflector_Wake() {
	src := simtest.Pods("shop/web")
	src.Refuse("", apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no list for you")))
	r, err := reflector.New[pod](src, podQueue(), reflector.Options[pod]{
		Streaming: reflector.StreamingOff, Backoff: reflector.Backoff{Min: time.Hour, Max: 24 * time.Hour},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	for r.Status().State != reflector.BackingOff {
		r.Step(ctx)
	}
	src.Refuse("", nil)
	r.Wake()
	for !r.Status().Live() { // otherwise this would take more than an hour
		r.Step(ctx)
	}
	fmt.Println(r.Status().Counts.Items, "pod,", r.Status().Counts.Waits, "wait")
	cancel()
	r.Step(ctx)
	// Output: 1 pod, 1 wait
}

// A consumer that lost its state asks for a list in which every object is decoded again.
func ExampleReflector_Relist() {
	src := simtest.Pods("shop/web") // version 101
	buffer := podQueue()
	r, err := reflector.New[pod](src, buffer, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	printUntil(ctx, buffer, "101")
	r.Relist(errors.New("the cache file is unreadable"))
	printUntil(ctx, buffer, "101")
	cancel()
	<-done
	fmt.Println(r.Status().Counts.Ended[reflector.Requested], "list was requested")
	// Output:
	// Replaced: 1 pods
	// Replaced: 1 pods
	// 1 list was requested
}

// The reflector of another namespace found that etcd was restored from a backup. This one could not
// notice, because the server has passed the version that it has seen.
func ExampleReflector_Rewound() {
	src := simtest.Pods("shop/web") // version 101
	buffer := podQueue()
	r, err := reflector.New[pod](src, buffer, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	printUntil(ctx, buffer, "101")
	r.Rewound(1)
	printUntil(ctx, buffer, "101")
	cancel()
	<-done
	fmt.Println("epoch", r.Status().Mark.Epoch)
	// Output:
	// Replaced: 1 pods
	// Replaced: 1 pods
	// epoch 1
}

// Objects that cannot be decoded or transformed are quarantined; the others are delivered.
func ExampleReflector_Quarantine() {
	src := simtest.Pods("shop/db", "shop/web")
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
	// shop/db 101 transform: annotation of 3 MB
}

// OnError receives every failure and its reason, for example for a metric.
func ExampleOptions_onError() {
	src := simtest.Pods()
	src.OnWatch = func(_ int, opts object.WatchOptions) (object.Stream[pod], error, bool) {
		return nil, apierrors.NewTooManyRequests("the server is busy", 5), !opts.InitialEvents
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
	fmt.Println("streaming lists:", strings.SplitN(s.Streaming.Cause, ":", 2)[0])
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
		r, err := reflector.New[pod](simtest.Pods(), podQueue(), reflector.Options[pod]{Name: name, Budget: budget})
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

// The replicas of a program share the pods by namespace. This one has half of them, and then all.
func ExampleReflector_SetShard() {
	src, buffer := simtest.Pods("bank/db", "shop/web"), podQueue()
	r, err := reflector.New[pod](src, buffer, reflector.Options[pod]{
		Name: "pods", Streaming: reflector.StreamingOff, Selection: object.Selection{Shard: object.Part(object.ByNamespace, 0, 2)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	printUntil(ctx, buffer, "102")
	switch s := r.Status().Sharding; s {
	case reflector.ShardingServer:
		fmt.Println("the server sends only these")
	case reflector.ShardingClient:
		fmt.Println("the others are dropped before they are decoded")
	case reflector.ShardingUnknown:
		fmt.Println("the server did not say", s)
	}
	r.SetShard(object.Part(object.ByNamespace, 0, 1))
	printUntil(ctx, buffer, "102")
	cancel()
	<-done
	// Output:
	// Replaced: 1 pods
	// the others are dropped before they are decoded
	// Replaced: 1 pods
}
