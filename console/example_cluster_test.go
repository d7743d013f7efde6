package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// connect returns a cluster with an embedded API server that has pods of the given names.
// run runs both; end stops them.
func connect(names ...string) (cluster *tarn.Cluster, run func(), end func()) {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if _, err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			panic(err)
		}
	}
	if cluster, err = tarn.Connect(tarn.WithConfig(server.Config()), tarn.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	run = func() {
		go func() { ended <- server.Run(ctx) }()
		go func() { ended <- cluster.Run(ctx) }()
	}
	return cluster, run, func() {
		stop()
		if err := errors.Join(<-ended, <-ended); err != nil {
			panic(err)
		}
	}
}

func mirrorPods(cluster *tarn.Cluster, opts ...tarn.Option) *tarn.Mirror[*corev1.Pod] {
	pods, err := tarn.MirrorOf[*corev1.Pod](cluster, opts...)
	if err != nil {
		panic(err)
	}
	return pods
}

// Explain answers why a key is not reconciled, for example in a program's own command or page.
func ExampleExplain() {
	cluster, run, end := connect("db", "web")
	defer end()
	last := make(chan struct{})
	_, err := tarn.NewController(cluster, "backup", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		if key.Name == "web" {
			close(last)
			return tarn.Result{}, nil
		}
		return tarn.Result{}, controller.Terminal(errors.New("no volume"))
	}, tarn.For(mirrorPods(cluster)))
	if err != nil {
		fmt.Println(err)
		return
	}
	run()
	<-last // the only worker is past db
	answer, err := console.Explain(cluster, object.Key{Namespace: "default", Name: "db"}, "backup")
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range answer.Controllers {
		fmt.Printf("%s of %s: %s\n%s\n", c.State, answer.Key, c.LastError, c.Do)
		fmt.Println("last reconcile:", c.Reconcile.Outcome)
		for _, o := range c.Objects {
			fmt.Println("in the mirror", o.Mirror, o.Exists)
		}
	}
	// Output:
	// failed of default/db: not to be retried: no volume
	// Fix what the error says, then change the object or retry the key now.
	// last reconcile: terminal
	// in the mirror pods true
}

// Problems lists what needs attention, for example for a log or an alert.
func ExampleProblems() {
	cluster, err := tarn.Connect(tarn.WithConfig(&rest.Config{Host: "https://cluster.example"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	reconcile := func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }
	if _, err := tarn.NewController(cluster, "backup", reconcile, tarn.For(mirrorPods(cluster))); err != nil {
		fmt.Println(err)
		return
	}
	cluster.ControllerNamed("backup").Pause()
	var report console.Status = cluster.Status()
	var pods console.MirrorStatus = report.Mirrors[0]
	fmt.Println(pods.Name, pods.State)
	for _, p := range console.Problems(report) {
		fmt.Printf("%s: %s: %s %s\n", p.Severity, p.Subject, p.What, p.Do)
	}
	// Output:
	// pods declared
	// warning: controller/backup: The controller is paused. Resume it.
}

// A mirror with a history has the versions of an object, here of one that is created and labelled.
func ExampleVersion() {
	cluster, run, end := connect()
	defer end()
	pods := mirrorPods(cluster, tarn.KeepHistory(10)).Client()
	run()
	ctx, key := context.Background(), tarn.Key{Namespace: "default", Name: "web"}
	if err := cluster.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	web, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	if err == nil {
		web.Labels = map[string]string{"app": "web"}
		_, err = pods.Update(ctx, web)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	var mirror console.Mirror = cluster.MirrorNamed("pods")
	var versions []console.Version
	for len(versions) < 2 { // the history follows the mirror
		<-time.After(time.Millisecond)
		versions = mirror.History(key)
	}
	for _, v := range versions {
		var pod corev1.Pod
		if err := json.Unmarshal(v.JSON, &pod); err != nil {
			fmt.Println(err)
		}
		fmt.Println(v.Kind, pod.Labels)
	}
	// Output:
	// added map[]
	// updated map[app:web]
}
