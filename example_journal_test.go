package tarn_test

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
)

// A program that starts again continues where the last one ended.
func ExampleWithJournal() {
	server, options, end := demo(pod("shop", "web", "node"))
	defer end()
	dir := must(os.MkdirTemp("", "journal"))
	defer os.RemoveAll(dir)

	program := func() {
		cluster := must(tarn.Connect(options, tarn.WithJournal(dir)))
		pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
		ctx, stop := run(cluster)
		defer stop()
		if err := pods.WaitSynced(ctx); err != nil {
			panic(err)
		}
		for !pods.Status().Journal.Writing { // a program goes on with its work
		}
		journal := pods.Status().Journal
		fmt.Println(pods.Len(), "continued:", journal.Resumed == 1, journal.Refused)
	}
	program()
	must(server.Create(pod("shop", "api", "node")))
	program()
	// Output:
	// 1 continued: false journal: there is no state of this mirror yet
	// 2 continued: true <nil>
}
