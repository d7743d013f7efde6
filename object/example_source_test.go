package object_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// serving returns a running API server, a client for it, and a function that stops it.
func serving() (*apiserver.Server, *wire.Client, func()) {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	client, err := wire.New(server.MemoryConfig(), wire.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	return server, client, func() {
		cancel()
		<-done
	}
}

// A source that keeps objects for itself decodes nothing that the receiver holds, and copies what
// the receiver may write to.
func ExampleIntake_Holds() {
	acc := object.Meta[*corev1.Pod]()
	mine := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1", ResourceVersion: "7"}}
	read := func(in *object.Intake[*corev1.Pod]) object.Item[*corev1.Pod] {
		item := object.Item[*corev1.Pod]{Key: object.Key{Name: mine.Name}, UID: mine.UID, Version: acc.VersionOf(mine)}
		if in.Holds(item.Key, item.UID, item.Version) {
			item.Held = true
			return item
		}
		if item.Object = mine; in.Owned() {
			item.Object = mine.DeepCopy()
		}
		in.Prepare(&item)
		return item
	}

	label := func(p *corev1.Pod) (*corev1.Pod, error) {
		p.Labels = map[string]string{"seen": "true"}
		return p, nil
	}
	item := read(&object.Intake[*corev1.Pod]{Transform: label})
	fmt.Println(item.Object.Labels, mine.Labels)

	s := store.Must(store.New(acc, store.Options[*corev1.Pod]{}))
	_ = s.Set(item.Object)
	fmt.Println("held:", read(&object.Intake[*corev1.Pod]{Held: s.Held}).Held)
	// Output:
	// map[seen:true] map[]
	// held: true
}

// A transform that panics costs one object, not the program.
func ExamplePanicError() {
	in := object.Intake[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
		p.Spec.Containers = p.Spec.Containers[:1]
		return p, nil
	}}
	item, _ := object.ItemOf(object.Meta[*corev1.Pod](), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	in.Prepare(&item)

	var panicked *object.PanicError
	if errors.As(item.Err, &panicked) {
		fmt.Println(item.Key, "panicked with", panicked.Value)
		fmt.Println("stack:", len(panicked.Stack) > 0)
	}
	// Output:
	// web panicked with runtime error: slice bounds out of range [:1] with capacity 0
	// stack: true
}

// A resource that is described with the wrong kind fails with the first response.
func ExampleWrongKindError() {
	_, client, stop := serving()
	defer stop()
	typo := wire.Custom[*corev1.Pod](object.Resource{Version: "v1", Resource: "nodes", Kind: "Pod"})
	_, _, err := stream.List(context.Background(), wire.For(client, typo), object.ListOptions{})

	var wrong *object.WrongKindError
	if errors.As(err, &wrong) {
		fmt.Println("want", wrong.Want)
		fmt.Println("got", wrong.Got)
	}
	fmt.Println(errors.Is(err, object.ErrWrongKind))
	// Output:
	// want v1, Kind=PodList
	// got v1, Kind=NodeList
	// true
}

// What to check depends on the error of a list or a watch.
func Example_errors() {
	server, client, stop := serving()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	explain := func(err error) {
		switch {
		case errors.Is(err, object.ErrCorrupt):
			fmt.Println("something between client and server changes the response")
		case errors.Is(err, object.ErrIdle):
			fmt.Println("the server accepts requests and does not respond")
		}
	}
	pods := wire.For(client, wire.MustOf[*corev1.Pod]())

	_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	_, _ = server.Inject(apiserver.Fault{Kind: apiserver.CorruptFrame})
	watch, err := stream.Watch(ctx, pods, object.WatchOptions{})
	if err == nil {
		_, err = watch.Next()
		watch.Close()
	}
	explain(err)

	_, _ = server.Inject(apiserver.Fault{Kind: apiserver.Stall})
	src, _ := stream.NewSource(pods, object.Selection{}, stream.Options{})
	buffer, _ := delta.NewBuffer[*corev1.Pod](delta.BufferOptions{})
	r, _ := reflector.New(src, buffer, reflector.Options[*corev1.Pod]{
		Streaming: reflector.StreamingOff, ListSilence: time.Millisecond,
		OnError: func(err error) {
			explain(err)
			cancel()
		},
	})
	_ = r.Run(ctx)
	// Output:
	// something between client and server changes the response
	// the server accepts requests and does not respond
}

// changelog is a sink that prints what it receives.
type changelog struct{ listed chan struct{} }

// Apply implements object.Sink.
func (l changelog) Apply(b *object.Batch[*corev1.ConfigMap]) error {
	for _, c := range b.Changes {
		if c.Kind == object.Quarantined {
			continue // it exists in a state that cannot be read; another UID of its name is deleted
		}
		if c.List == nil {
			fmt.Println(c.Kind, c.Key)
			return errors.New("seen enough") // ends the reflector
		}
		fmt.Println(c.Kind, "with", len(c.List.Items), "objects")
		close(l.listed)
	}
	return nil
}

// Held implements object.Sink: a changelog holds nothing.
func (changelog) Held(object.Key, object.UID, object.Version) bool { return false }

// A reflector feeds any sink.
func ExampleSink() {
	server, client, stop := serving()
	defer stop()
	listed := make(chan struct{})
	var sink object.Sink[*corev1.ConfigMap] = changelog{listed}
	src, err := stream.NewSource(wire.For(client, wire.MustOf[*corev1.ConfigMap]()), object.Selection{Namespace: "default"}, stream.Options{})
	if err != nil {
		panic(err)
	}
	r, err := reflector.New(src, sink, reflector.Options[*corev1.ConfigMap]{})
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() { done <- r.Run(context.Background()) }()
	<-listed
	_, _ = server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}})
	fmt.Println(<-done)
	// Output:
	// Replaced with 0 objects
	// Added default/settings
	// seen enough
}

// The events of a watch become a batch for a store.
func ExampleChangeOf() {
	server, client, stop := serving()
	defer stop()
	_, _ = server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	watch, err := stream.Watch(context.Background(), wire.For(client, wire.MustOf[*corev1.Pod]()), object.WatchOptions{})
	if err != nil {
		panic(err)
	}
	defer watch.Close()
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))

	events, err := watch.Next()
	if err != nil {
		panic(err)
	}
	var batch object.Batch[*corev1.Pod]
	for i := range events {
		batch.Changes = append(batch.Changes, object.ChangeOf(events[i].Kind, &events[i].Item))
	}
	changes, err := s.Apply(&batch, nil)
	for _, c := range changes {
		fmt.Println(c.Kind, c.Key, err)
	}
	// Output: Added default/web <nil>
}

// A handler that reacts to the spec of objects ignores updates of the status.
func ExampleStatusOnly() {
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 3}}
	ready := old.DeepCopy()
	ready.Status.ReadyReplicas = 2
	paused := ready.DeepCopy()
	paused.Annotations = map[string]string{"example.com/paused": "true"}
	fmt.Println(object.StatusOnly(old, ready), object.StatusOnly(ready, paused))
	// Output: true false
}
