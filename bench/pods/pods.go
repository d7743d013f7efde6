// Package pods generates the objects of the benchmarks: pods like those of a large cluster, the
// same ones for the same [Options].
//
// Pods come from templates, as those of Deployments do: the pods of one template share
// its shape (containers, environment, volumes, probes, tolerations, annotations), and
// each differs from all others in name, UID, node, addresses, times and status. Every
// pod is encoded to protobuf and decoded, so no two share memory, as if a client had received
// them.
package pods

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// Options configure Generate. The zero Options produce one thousand pods; the other defaults are
// those of the benchmarks.
type Options struct {
	// Objects is the number of pods. Defaults to 1,000.
	Objects int
	// Namespaces is the number of namespaces. Defaults to 100.
	Namespaces int
	// Nodes is the number of nodes, among which pods are distributed evenly. Defaults to
	// 1,000.
	Nodes int
	// Templates is the number of templates, each with its own value of the label
	// "app". Defaults to 320.
	Templates int
	// Seed is the random seed. Defaults to 1.
	Seed uint64
}

func (o Options) withDefaults() Options {
	set := func(field *int, to int) {
		if *field <= 0 {
			*field = to
		}
	}
	set(&o.Objects, 1_000)
	set(&o.Namespaces, 100)
	set(&o.Nodes, 1_000)
	set(&o.Templates, 320)
	if o.Seed == 0 {
		o.Seed = 1
	}
	return o
}

// Labels that the benchmarks select by.
const (
	// AppLabel has one value for each template.
	AppLabel = "app"
	// TierLabel has one of four values.
	TierLabel = "tier"
	// TrackLabel is [Canary] on one pod in a thousand and "stable" on the others.
	TrackLabel = "track"
	// Canary is the rare value of [TrackLabel].
	Canary = "canary"
)

// birth is the creation time of the first pod.
var birth = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// firstVersion is the resource version of the first pod created.
const firstVersion = 41_000_000

// Plan has what is needed to build the pods of some [Options], in about 100 bytes per pod. It is
// never written to after [NewPlan] returns, so any goroutine may build pods from it.
type Plan struct {
	seed    uint64
	version uint64
	pods    []planned
}

// NewPlan returns the plan of the pods, sorted by namespace and name like a server's list.
func NewPlan(opts Options) *Plan {
	opts = opts.withDefaults()
	return &Plan{opts.Seed, LastVersion(opts), newPlan(opts, newTemplates(opts))}
}

// Len returns the number of pods.
func (p *Plan) Len() int { return len(p.pods) }

// LastVersion returns a version after that of every pod of the plan.
func (p *Plan) LastVersion() uint64 { return p.version }

// Pod builds the ith pod. Every call returns a new one.
func (p *Plan) Pod(i int) *corev1.Pod { return decoded(p.pods[i].pod(p.seed)) }

// Generate returns the pods of a plan. Their resource versions increase with creation time, which
// is a different order.
func Generate(opts Options) []*corev1.Pod {
	plan := NewPlan(opts)
	pods := make([]*corev1.Pod, plan.Len())
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		lo, hi := len(pods)*w/workers, len(pods)*(w+1)/workers
		wg.Go(func() {
			for i := lo; i < hi; i++ {
				pods[i] = plan.Pod(i)
			}
		})
	}
	wg.Wait()
	return pods
}

// LastVersion returns a version after that of every pod that Generate makes with these
// options.
func LastVersion(opts Options) uint64 {
	return firstVersion + versionStep*uint64(opts.withDefaults().Objects)
}

// Next returns the next version of a pod after a status update: one condition, the resource
// version and the time of its field manager have changed. Name, node and labels are unchanged.
// The two pods share no memory.
func Next(pod *corev1.Pod, version uint64) *corev1.Pod {
	next := decoded(pod)
	next.ResourceVersion = strconv.FormatUint(version, 10)
	for i := range next.Status.Conditions {
		c := &next.Status.Conditions[i]
		if c.Type != corev1.PodReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
		} else {
			c.Status, c.Reason = corev1.ConditionTrue, ""
		}
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(time.Minute))
	}
	if n := len(next.ManagedFields); n > 0 {
		at := metav1.NewTime(next.ManagedFields[n-1].Time.Add(time.Minute))
		next.ManagedFields[n-1].Time = &at
	}
	return next
}

// Copy returns a pod that is equal and shares no memory: the same version, decoded again.
func Copy(pod *corev1.Pod) *corev1.Pod { return decoded(pod) }

// Encode returns the pod as protobuf. It panics on a pod that cannot be encoded; no pod of this
// package is.
func Encode(pod *corev1.Pod) []byte {
	data, err := pod.Marshal()
	if err != nil {
		panic(fmt.Sprintf("pods: encoding %s: %v", pod.Name, err))
	}
	return data
}

// Decode returns the pod that Encode was given.
func Decode(data []byte) *corev1.Pod {
	pod := new(corev1.Pod)
	if err := pod.Unmarshal(data); err != nil {
		panic(fmt.Sprintf("pods: decoding: %v", err))
	}
	return pod
}

func decoded(pod *corev1.Pod) *corev1.Pod { return Decode(Encode(pod)) }

// Keys returns the keys of the pods that Generate makes, in the same order, without the pods.
// No two share memory.
func Keys(opts Options) []object.Key {
	plan := NewPlan(opts).pods
	keys := make([]object.Key, len(plan))
	for i, p := range plan {
		keys[i] = object.Key{Namespace: strings.Clone(p.namespace), Name: strings.Clone(p.name)}
	}
	return keys
}
