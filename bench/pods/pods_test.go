package pods_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tarnproject/tarn/bench/pods"
)

const some = 5_000

func TestMeanSizesAreThoseOfTheDocs(t *testing.T) {
	all := pods.Generate(pods.Options{Objects: some})
	var inJSON, inProtobuf int
	for _, p := range all {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		inJSON += len(data)
		inProtobuf += p.Size()
	}
	inJSON, inProtobuf = inJSON/some, inProtobuf/some
	t.Logf("mean size: %d bytes of JSON, %d of protobuf", inJSON, inProtobuf)
	if inJSON < 4_700 || inJSON > 5_500 {
		t.Errorf("mean JSON size is %d bytes; want about 5,000", inJSON)
	}
	if inProtobuf < 2_500 || inProtobuf > 4_000 {
		t.Errorf("mean protobuf size is %d bytes", inProtobuf)
	}
}

func TestCountsAreThoseOfACluster(t *testing.T) {
	all := pods.Generate(pods.Options{Objects: some})
	namespaces, nodes, apps, names := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	uids, versions, addresses := map[string]int{}, map[string]int{}, map[string]int{}
	canaries := 0
	for _, p := range all {
		namespaces[p.Namespace]++
		nodes[p.Spec.NodeName]++
		apps[p.Labels[pods.AppLabel]]++
		names[p.Namespace+"/"+p.Name]++
		uids[string(p.UID)]++
		versions[p.ResourceVersion]++
		addresses[p.Status.PodIP]++
		if p.Labels[pods.TrackLabel] == pods.Canary {
			canaries++
		}
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"pods", len(all), some},
		{"namespaces", len(namespaces), 100},
		{"nodes", len(nodes), 1_000},
		{"values of app", len(apps), 320},
		{"different keys", len(names), some},
		{"different UIDs", len(uids), some},
		{"different versions", len(versions), some},
		{"different addresses", len(addresses), some},
		{"canaries", canaries, some / 1_000},
	} {
		if c.got != c.want {
			t.Errorf("%d %s, want %d", c.got, c.what, c.want)
		}
	}
	for node, n := range nodes {
		if n != some/1_000 {
			t.Errorf("node %s has %d pods, want %d", node, n, some/1_000)
		}
	}
}

func TestTemplatesAreDistinct(t *testing.T) {
	// One pod of each template is enough.
	shapes := map[string]map[string]string{"env": {}, "volumes": {}, "annotations": {}, "images": {}, "resources+probes": {}}
	for _, p := range pods.Generate(pods.Options{Objects: some}) {
		c := p.Spec.Containers[0]
		for what, of := range map[string]any{
			"env":         c.Env,
			"volumes":     p.Spec.Volumes,
			"annotations": p.Annotations["checksum/config"],
			"images":      c.Image,
			"resources+probes": []any{
				c.Resources, c.LivenessProbe, c.ReadinessProbe, p.Spec.Tolerations,
			},
		} {
			data, err := json.Marshal(of)
			if err != nil {
				t.Fatal(err)
			}
			shapes[what][string(data)] = p.Labels[pods.AppLabel]
		}
	}
	for what, seen := range shapes {
		if len(seen) < 300 {
			t.Errorf("%d different %s, want at least 300", len(seen), what)
		}
	}
}

func TestSameOptionsSamePods(t *testing.T) {
	opts := pods.Options{Objects: 500, Seed: 7}
	a, b := pods.Generate(opts), pods.Generate(opts)
	if !equality.Semantic.DeepEqual(a, b) {
		t.Error("two runs with one seed differ")
	}
	opts.Seed = 8
	if equality.Semantic.DeepEqual(a, pods.Generate(opts)) {
		t.Error("another seed gave the same pods")
	}
}

func TestPlanBuildsAPodAgain(t *testing.T) {
	plan := pods.NewPlan(pods.Options{Objects: 500})
	for i, p := range pods.Generate(pods.Options{Objects: 500}) {
		if !equality.Semantic.DeepEqual(plan.Pod(i), p) {
			t.Fatalf("pod %d differs", i)
		}
	}
}

func TestOrderIsThatOfAServer(t *testing.T) {
	all := pods.Generate(pods.Options{Objects: some})
	sorted := slices.IsSortedFunc(all, func(a, b *corev1.Pod) int {
		if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	if !sorted {
		t.Error("not sorted by namespace and name")
	}
}

func TestPodsShareNoStrings(t *testing.T) {
	seen := map[*byte]bool{}
	for _, p := range pods.Generate(pods.Options{Objects: 2_000}) {
		for _, s := range []string{p.Namespace, p.Spec.NodeName, p.Labels[pods.AppLabel], p.Spec.Containers[0].Image} {
			at := unsafe.StringData(s)
			if seen[at] {
				t.Fatalf("%s/%s shares the string %q", p.Namespace, p.Name, s)
			}
			seen[at] = true
		}
	}
}

func TestNextChangesStatusAndNothingThatIsIndexed(t *testing.T) {
	opts := pods.Options{Objects: 50}
	for _, p := range pods.Generate(opts) {
		before := p.DeepCopy()
		next := pods.Next(p, pods.LastVersion(opts)+1)
		if !equality.Semantic.DeepEqual(p, before) {
			t.Fatal("Next changed its argument")
		}
		if next.ResourceVersion == p.ResourceVersion || len(next.ResourceVersion) < len(p.ResourceVersion) {
			t.Errorf("version %s after %s", next.ResourceVersion, p.ResourceVersion)
		}
		if equality.Semantic.DeepEqual(next.Status, p.Status) {
			t.Error("the status is the same")
		}
		if unsafe.StringData(next.Name) == unsafe.StringData(p.Name) {
			t.Error("the two share their name's memory")
		}
		next.ResourceVersion, next.Status, next.ManagedFields = p.ResourceVersion, p.Status, p.ManagedFields
		if !equality.Semantic.DeepEqual(next, p) {
			t.Error("Next changed more than version, status and managed fields")
		}
	}
}

func TestCopyIsEqualAndApart(t *testing.T) {
	p := pods.Generate(pods.Options{Objects: 1})[0]
	c := pods.Copy(p)
	if !equality.Semantic.DeepEqual(c, p) {
		t.Error("not equal")
	}
	if unsafe.StringData(c.ResourceVersion) == unsafe.StringData(p.ResourceVersion) {
		t.Error("shares memory")
	}
}

func TestKeysAreThoseOfThePods(t *testing.T) {
	opts := pods.Options{Objects: 1_500}
	keys := pods.Keys(opts)
	all := pods.Generate(opts)
	if len(keys) != len(all) {
		t.Fatalf("%d keys of %d pods", len(keys), len(all))
	}
	for i, p := range all {
		if keys[i].Namespace != p.Namespace || keys[i].Name != p.Name {
			t.Fatalf("key %d is %v; the pod is %s/%s", i, keys[i], p.Namespace, p.Name)
		}
	}
}
