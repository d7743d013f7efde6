package store_test

import (
	"fmt"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// An index is a value: it is given to a store, and asked with a snapshot.
func ExampleNewIndex() {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-7"}})
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.PodSpec{NodeName: "node-3"}})

	snap := s.Snapshot()
	defer snap.Release()
	for pod := range byNode.Get(snap, "node-7") {
		fmt.Println(pod.Name)
	}
	fmt.Println(byNode.Count(snap, "node-3"), byNode.Count(snap, "node-4"))
	// Output:
	// web
	// 1 0
}

// The values of an index may be of any comparable type, here a struct.
func ExampleIndex() {
	type port struct {
		Node string
		Port int32
	}
	byHostPort := store.NewMultiIndex("host port", func(p *corev1.Pod, add func(port)) error {
		for _, c := range p.Spec.Containers {
			for _, cp := range c.Ports {
				if cp.HostPort != 0 {
					add(port{p.Spec.NodeName, cp.HostPort})
				}
			}
		}
		return nil
	})
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byHostPort},
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ingress"}, Spec: corev1.PodSpec{
		NodeName:   "node-1",
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}, {HostPort: 443}}}},
	}})

	snap := s.Snapshot()
	defer snap.Release()
	for pod := range byHostPort.Get(snap, port{"node-1", 443}) {
		fmt.Println(pod.Name)
	}
	// Output: ingress
}

// An object may have several values in an index, or none.
func ExampleNewMultiIndex() {
	byImage := store.NewMultiIndex("image", func(p *corev1.Pod, add func(string)) error {
		for _, c := range p.Spec.Containers {
			add(c.Image)
		}
		return nil
	})
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byImage},
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Image: "nginx:1.29"}, {Image: "envoy:1.36"}},
	}})

	snap := s.Snapshot()
	defer snap.Release()
	for pod := range byImage.Get(snap, "envoy:1.36") {
		fmt.Println(pod.Name)
	}
	fmt.Println(slices.Sorted(byImage.Keys(snap)))
	// Output:
	// web
	// [envoy:1.36 nginx:1.29]
}

// An ordered index yields its values in order.
func ExampleOrdered() {
	byRestarts := store.Ordered(store.NewIndex("restarts", func(p *corev1.Pod) int32 {
		var sum int32
		for _, c := range p.Status.ContainerStatuses {
			sum += c.RestartCount
		}
		return sum
	}))
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byRestarts},
	}))
	for name, restarts := range map[string]int32{"web": 0, "db": 3, "job": 41, "cache": 7} {
		_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{RestartCount: restarts}},
		}})
	}

	snap := s.Snapshot()
	defer snap.Release()
	for restarts := range byRestarts.Keys(snap) {
		for pod := range byRestarts.Get(snap, restarts) {
			fmt.Println(pod.Name, restarts)
		}
	}
	// Output:
	// web 0
	// db 3
	// cache 7
	// job 41
}

// OrderedBy is for values whose order is not the natural one, such as versions.
func ExampleIndex_OrderedBy() {
	byKubelet := store.NewIndex("kubelet", func(n *corev1.Node) string { return n.Status.NodeInfo.KubeletVersion })
	byKubelet.OrderedBy(func(a, b string) int {
		order, _ := version.MustParseGeneric(a).Compare(b)
		return order
	})
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{
		Indexes: []store.AnyIndex[*corev1.Node]{byKubelet},
	}))
	for name, kubelet := range map[string]string{"node-1": "v1.9.11", "node-2": "v1.35.0", "node-3": "v1.33.2"} {
		_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubelet},
		}})
	}

	snap := s.Snapshot()
	defer snap.Release()
	for kubelet := range byKubelet.Keys(snap) {
		for node := range byKubelet.Get(snap, kubelet) {
			fmt.Println(node.Name, "has", kubelet)
		}
	}
	// Output:
	// node-1 has v1.9.11
	// node-3 has v1.33.2
	// node-2 has v1.35.0
}

// ObjectKeys is for a caller that needs no objects, such as one that adds keys to a queue.
func ExampleIndex_ObjectKeys() {
	byConfig := store.NewMultiIndex("config", func(p *corev1.Pod, add func(string)) error {
		for _, v := range p.Spec.Volumes {
			if v.ConfigMap != nil {
				add(v.ConfigMap.Name)
			}
		}
		return nil
	})
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byConfig},
	}))
	settings := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{VolumeSource: settings}},
	}})

	snap := s.Snapshot()
	defer snap.Release()
	fmt.Println("restart", byConfig.ObjectKeys(snap, "settings"))
	// Output: restart [shop/web]
}

// Size is known in constant time, also where many objects have a value.
func ExampleIndex_Size() {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
	}))
	for i := range 250 {
		_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Spec: corev1.PodSpec{NodeName: "node-7"}})
	}

	snap := s.Snapshot()
	defer snap.Release()
	pods := make([]*corev1.Pod, 0, byNode.Size(snap, "node-7")) // one allocation
	pods = slices.AppendSeq(pods, byNode.Get(snap, "node-7"))
	fmt.Println(len(pods))
	// Output: 250
}

// Find is for tools that know an index only by its name, such as a page of a web console.
func ExampleSnapshot_Find() {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-7"}})

	snap := s.Snapshot()
	defer snap.Release()
	for _, request := range []string{"/pods?node=node-7", "/pods?zone=west"} {
		u, _ := url.Parse(request)
		for index, values := range u.Query() {
			keys, ok := snap.Find(index, values[0])
			fmt.Println(index, ok, keys)
		}
	}
	// Output:
	// node true [shop/web]
	// zone false []
}

// Like finds the objects that share a value with a given one.
func ExampleIndex_Like() {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
	}))
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	web := pod("web", "node-7")
	_ = s.Replace("10", web, pod("log", "node-7"), pod("db", "node-3"))

	snap := s.Snapshot()
	defer snap.Release()
	for neighbour := range byNode.Like(snap, web) {
		fmt.Println(neighbour.Name)
	}
	// Unordered output:
	// web
	// log
}

// Any label selector is served; its cost follows what it selects.
func ExampleLabelIndex_Select() {
	byLabel := store.NewLabelIndex(object.Meta[*corev1.Pod]().Labels)
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byLabel},
	}))
	pod := func(name, app, track string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app, "track": track}}}
	}
	_ = s.Replace("10", pod("web-1", "web", "stable"), pod("web-2", "web", "canary"), pod("db-1", "db", "stable"))

	snap := s.Snapshot()
	defer snap.Release()
	selector, err := labels.Parse("app in (web,cache), track!=canary")
	if err != nil {
		panic(err)
	}
	for pod := range byLabel.Select(snap, selector) {
		fmt.Println(pod.Name)
	}
	// A single label can be asked for without a selector.
	fmt.Println(byLabel.Count(snap, store.Label{Key: "track", Value: "stable"}))
	// Output:
	// web-1
	// 2
}

// The owner index finds what belongs to an object.
func ExampleNewOwnerIndex() {
	byOwner := store.NewOwnerIndex[*corev1.Pod]()
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Indexes: []store.AnyIndex[*corev1.Pod]{byOwner},
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name:            "web-5d8f-x2x",
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d8f", UID: "9c1e"}},
	}})

	snap := s.Snapshot()
	defer snap.Release()
	for pod := range byOwner.Get(snap, "9c1e") {
		fmt.Println(pod.Name)
	}
	// Output: web-5d8f-x2x
}

// An index may be added while the store is in use. It sees what is already there, and
// answers for older snapshots too.
func ExampleStore_AddIndex() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-7"}})
	older := s.Snapshot()
	defer older.Release()

	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	s.AddIndex(byNode)
	snap := s.Snapshot()
	defer snap.Release()
	fmt.Println(byNode.Count(snap, "node-7"), byNode.Count(older, "node-7"))
	// Output: 1 1
}

func ExampleLabelIndex_SelectIn() {
	byLabel := store.NewLabelIndex[*corev1.Pod](nil)
	pods := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{Indexes: []store.AnyIndex[*corev1.Pod]{byLabel}}))
	for _, ns := range []string{"shop", "lab"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Labels: map[string]string{"app": "web"}}}
		if err := pods.Set(pod); err != nil {
			panic(err)
		}
	}
	pods.View(func(snap store.Snapshot[*corev1.Pod]) {
		for pod := range byLabel.SelectIn(snap, "shop", labels.SelectorFromSet(labels.Set{"app": "web"})) {
			fmt.Println(pod.Namespace, pod.Name)
		}
	})
	// Output:
	// shop web
}
