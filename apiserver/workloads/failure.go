package workloads

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// FailureKind is a way in which pods or nodes fail.
type FailureKind string

// The kinds of failures.
const (
	// Crash makes containers exit with [Failure.ExitCode] as soon as they run. A pod with the
	// restart policy Never fails. In other pods they are restarted with a growing back-off,
	// in the state CrashLoopBackOff.
	Crash FailureKind = "crash"
	// ImagePull keeps containers that have not started in the state ImagePullBackOff.
	ImagePull FailureKind = "image-pull"
	// Unschedulable keeps pods that have no node from getting one.
	Unschedulable FailureKind = "unschedulable"
	// NodeLost makes the Ready condition of [Failure.Node] Unknown and stops its kubelet:
	// pods on it neither start nor terminate.
	NodeLost FailureKind = "node-lost"
)

// Failure describes pods or a node that fail. Removing it lets them recover as they would in a
// cluster: a container after its back-off, a node at once.
type Failure struct {
	Kind FailureKind
	// Namespace restricts the failure to the pods of a namespace. Defaults to all.
	Namespace string
	// Selector restricts the failure to pods that match a label selector, such as "app=web".
	// Defaults to all.
	Selector string
	// Node is the node of NodeLost. It restricts other failures to the pods on a node.
	// Defaults to all nodes.
	Node string
	// ExitCode is the exit code of containers that crash. Defaults to 1.
	ExitCode int32
}

// failures holds the active failures. A Failure is not modified after Inject.
type failures struct {
	mu      sync.Mutex // guards the rest
	active  []*activeFailure
	changed chan struct{} // closed by the next change
}

type activeFailure struct {
	Failure
	selector labels.Selector
}

// Inject activates a failure. The returned function removes it; further calls do nothing.
func (w *Workloads) Inject(f Failure) (remove func(), err error) {
	selector, err := labels.Parse(f.Selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("workloads: selector %q: %w", f.Selector, err)
	case !slices.Contains([]FailureKind{Crash, ImagePull, Unschedulable, NodeLost}, f.Kind):
		return nil, fmt.Errorf("workloads: unknown kind of failure %q", f.Kind)
	case f.Kind == NodeLost && (f.Node == "" || f.Namespace != "" || f.Selector != ""):
		return nil, fmt.Errorf("workloads: failure %s needs a node, and has no namespace or selector", f.Kind)
	case f.Kind == Unschedulable && f.Node != "":
		return nil, fmt.Errorf("workloads: failure %s affects pods without a node", f.Kind)
	}
	f.ExitCode = cmp.Or(f.ExitCode, 1)
	of := &activeFailure{f, selector}
	w.failures.change(func() { w.failures.active = append(w.failures.active, of) })
	return func() {
		w.failures.change(func() {
			w.failures.active = slices.DeleteFunc(w.failures.active, func(other *activeFailure) bool { return other == of })
		})
	}, nil
}

func (fs *failures) change(do func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	do()
	close(fs.changed)
	fs.changed = make(chan struct{})
}

// wait returns a channel that is closed by the next change.
func (fs *failures) wait() <-chan struct{} {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.changed
}

// of returns the failure of a kind that affects a pod, or nil.
func (fs *failures) of(kind FailureKind, pod *corev1.Pod) *activeFailure {
	return fs.find(func(f *activeFailure) bool {
		return f.Kind == kind && (f.Namespace == "" || f.Namespace == pod.Namespace) &&
			(f.Node == "" || f.Node == pod.Spec.NodeName) && f.selector.Matches(labels.Set(pod.Labels))
	})
}

// lost reports whether a node is lost.
func (fs *failures) lost(node string) bool {
	return fs.find(func(f *activeFailure) bool { return f.Kind == NodeLost && f.Node == node }) != nil
}

func (fs *failures) find(match func(*activeFailure) bool) *activeFailure {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if i := slices.IndexFunc(fs.active, match); i >= 0 {
		return fs.active[i]
	}
	return nil
}
