package recorder_test

import (
	"context"
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

// A recorder writes to an API server, here an embedded one. A program runs it next to its
// controllers with controller.Run.
func Example() {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	serving, stopServer := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- server.Run(serving) }()
	defer func() {
		stopServer()
		<-served
	}()
	client, err := wire.New(server.Config(), wire.Options{})
	if err != nil {
		panic(err)
	}

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
