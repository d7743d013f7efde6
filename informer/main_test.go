package informer_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	podInformer = informer.Informer[*corev1.Pod]
	podOptions  = informer.Options[*corev1.Pod]
	podHandler  = informer.Handler[*corev1.Pod]
	podSub      = informer.SubOptions[*corev1.Pod]
	podEvent    = informer.Event[*corev1.Pod]
	podItem     = object.Item[*corev1.Pod]
)

var podMeta = object.Meta[*corev1.Pod]()

// rewind restores a backup of a version, in which all pods have that version.
func rewind(srv *simtest.Server[*corev1.Pod], version int, edits ...func(*corev1.Pod)) {
	var pods []*corev1.Pod
	for _, pod := range srv.Objects() {
		pod = pod.DeepCopy()
		pod.ResourceVersion = strconv.Itoa(version)
		for _, edit := range edits {
			edit(pod)
		}
		pods = append(pods, pod)
	}
	srv.Load(version, pods...)
}

func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

func forbidden() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "pods is forbidden: nobody may list them",
	}}
}

func newInformer(t testing.TB, src reflector.Source[*corev1.Pod], opts podOptions) *podInformer {
	t.Helper()
	if opts.Name == "" {
		opts.Name = "pods"
	}
	opts.Reflector.Streaming = reflector.StreamingOff
	inf, err := informer.New(src, podMeta, opts)
	if err != nil {
		t.Fatal(err)
	}
	return inf
}

// start runs an informer, and returns what stops it and waits for its end, which the test
// does too when it ends.
func start(t testing.TB, inf *podInformer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := inf.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func subscribe(t testing.TB, inf *podInformer, h podHandler, opts podSub) *informer.Subscription {
	t.Helper()
	sub, err := inf.Subscribe(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// closed reports whether a channel is closed, now.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
