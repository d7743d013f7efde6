package recorder_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/recorder"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// connect returns a client of an embedded API server, which runs until end is called.
func connect() (client *wire.Client, end func()) {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- server.Run(ctx) }()
	client, err = wire.New(server.Config(), wire.Options{})
	if err != nil {
		panic(err)
	}
	return client, func() {
		stop()
		<-served
	}
}

// A recorder writes to an API server, here an embedded one. A program runs it next to its
// controllers with controller.Run.
func Example() {
	client, end := connect()
	defer end()
	events := recorder.New(client, "web", recorder.Options{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
	for range 3 {
		events.Normal(pod, "Scaled", "from %d to %d", 1, 3)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop() // Run sends what is pending and returns
	fmt.Println(events.Run(ctx), events.Status().Sent)

	list, _, err := stream.List(context.Background(), wire.For(client, wire.MustOf[*eventsv1.Event]()), object.ListOptions{})
	for _, e := range list {
		fmt.Println(e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Note, "times", e.Series.Count, err)
	}
	// Output:
	// <nil> 3
	// Normal Scaled Pod web-0 from 1 to 3 times 3 <nil>
}

// An event may name a second object and the action that was taken. Objects are of any kind.
func ExampleRecorder_Eventf() {
	client, end := connect()
	defer end()
	events := recorder.New(client, "scheduler", recorder.Options{})
	report := func(obj recorder.Object, err error) { events.Warning(obj, "Failed", "%v", err) }

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-7"}}
	events.Eventf(pod, node, corev1.EventTypeNormal, "Scheduled", "Binding", "the node has room for %d more", 3)
	report(node, errors.New("disk full"))
	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(events.Run(ctx))

	list, _, err := stream.List(context.Background(), wire.For(client, wire.MustOf[*eventsv1.Event]()), object.ListOptions{})
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range list {
		fmt.Println(e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Action, e.Note)
		if e.Related != nil {
			fmt.Println("related to", e.Related.Kind, e.Related.Name)
		}
	}
	// Output:
	// <nil>
	// Node node-7 Failed Failed disk full
	// Pod web-0 Scheduled Binding the node has room for 3 more
	// related to Node node-7
}
