package clients

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/controller/recorder"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Events of package recorder pass the server's validation, and kubectl shows them.
func TestKubectlShowsRecordedEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		ctx := patience.Context(t)
		clients := s.clientset(t)
		web, err := clients.CoreV1().Pods(s.namespace).Create(ctx, pod(s.namespace, "web", nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := wire.New(s.config, wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := recorder.New(client, "example.com/web", recorder.Options{Instance: "web-1"})
		ended, end := context.WithCancel(ctx)
		end()
		sent := uint64(0)
		// flush sends what was recorded.
		flush := func(n uint64) {
			t.Helper()
			sent += n
			if err := r.Run(ended); err != nil {
				t.Fatal(err)
			}
			if got := r.Status(); got.Sent != sent || got.Failed != 0 || got.Dropped != 0 {
				t.Fatalf("%+v; want %d sent", got, sent)
			}
		}
		k := newKubectl(t, s)
		shows := func(pattern string, args ...string) {
			t.Helper()
			out, ok := k.run("", args...)
			if !ok || !regexp.MustCompile(pattern).MatchString(out) {
				t.Errorf("kubectl %s: no %s in\n%s", strings.Join(args, " "), pattern, out)
			}
		}
		r.Warning(web, "BackOff", "restarting %s", "main")
		flush(1)
		shows(`Warning +BackOff +\S+ +example.com/web +restarting main`, "describe", "pod", "web")
		for range 3 {
			r.Warning(web, "BackOff", "restarting %s", "main")
		}
		flush(3)
		shows(`Warning +BackOff +\S+ \(x4 over \S+\) +example.com/web +restarting main`, "describe", "pod", "web")
		shows(`Warning +BackOff +pod/web +restarting main`, "get", "events")
		if err := clients.CoreV1().Events(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		r.Warning(web, "BackOff", "restarting %s", "main")
		flush(1)
		shows(`\(x5 over \S+\)`, "describe", "pod", "web")

		for i := range 12 {
			r.Eventf(web, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, "Normal", "Tick", "Ticking", "tick %d %s", i, strings.Repeat("é", 600))
		}
		flush(12)
		shows(`pod/web +\(combined from similar events\): tick 10`, "get", "events")

		node, err := clients.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "recorder-"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Normal(node, "Joined", "a node")
		flush(1)
		shows(`node/`+node.Name+` +a node`, "get", "events", "--namespace", "default")
	})
}
