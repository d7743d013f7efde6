package simtest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/testkit"
)

// Recorder records lines. The zero Recorder is empty. Its methods may be called from any
// goroutine.
type Recorder struct {
	mu    sync.Mutex
	lines []string
}

// Add records a line.
func (r *Recorder) Add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Take returns the lines since the last call.
func (r *Recorder) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// PodHandler returns a handler that records its calls: "add! shop/web@101" with a mark for
// the initial state, "update shop/web@101>102", and "delete? shop/web@102" with a mark for a
// final state that is unknown.
func (r *Recorder) PodHandler() informer.Handler[*corev1.Pod] {
	return informer.Handler[*corev1.Pod]{
		OnAdd: func(p *corev1.Pod, initial bool) {
			r.Add("add%s %s@%s", map[bool]string{true: "!"}[initial], KeyOf(p), p.ResourceVersion)
		},
		OnUpdate: func(old, p *corev1.Pod) {
			r.Add("update %s@%s>%s", KeyOf(p), old.ResourceVersion, p.ResourceVersion)
		},
		OnDelete: func(p *corev1.Pod, unknown bool) {
			r.Add("delete%s %s@%s", map[bool]string{true: "?"}[unknown], KeyOf(p), p.ResourceVersion)
		},
	}
}

// Want reports an error if two values differ.
func Want[V any](t testing.TB, what string, got, want V) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Advance lets virtual time pass, and waits until every goroutine of the bubble is blocked.
func Advance(d time.Duration) {
	testkit.Advance(d)
}
