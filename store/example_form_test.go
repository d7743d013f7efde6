package store_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// A compact store keeps of each object only what others do not have, and decodes it when it is read.
func ExamplePacked() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Form: store.Packed((*corev1.Pod).Marshal, func(data []byte) (*corev1.Pod, error) {
			p := new(corev1.Pod)
			return p, p.Unmarshal(data)
		}),
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-7"}})

	pod, _ := s.Get(object.Key{Name: "web"})
	fmt.Println(pod.Spec.NodeName)
	// Output: node-7
}

// An Encoder puts the objects of a list into the store's form as they are decoded, so that a
// long list is never held decoded as a whole. An informer does this by itself.
func ExampleStore_Encoder() {
	acc := object.Meta[*corev1.Pod]()
	s := store.Must(store.New(acc, store.Options[*corev1.Pod]{
		Form: store.Packed((*corev1.Pod).Marshal, func(data []byte) (*corev1.Pod, error) {
			p := new(corev1.Pod)
			return p, p.Unmarshal(data)
		}),
	}))
	encoder := s.Encoder(func() bool { return false })
	list := object.List[*corev1.Pod]{Mark: object.Mark{Version: "7"}}
	for _, name := range []string{"a", "b"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "5"}}
		item, _ := object.ItemOf(acc, pod)
		encoded, err := encoder.Encode(pod, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		item.Value = object.Value[*corev1.Pod]{Encoded: encoded}
		_, ok := store.PackedOf(item.Value) // what package journal writes
		fmt.Println(name, "is encoded:", ok)
		list.Items = append(list.Items, item)
	}
	changes, _ := s.Apply(&object.Batch[*corev1.Pod]{Changes: []object.Change[*corev1.Pod]{{Kind: object.Replaced, List: &list}}}, nil)
	for _, c := range changes {
		fmt.Println(c.Kind, c.Key, c.New().ResourceVersion)
	}
	// Output:
	// a is encoded: true
	// b is encoded: true
	// Added a 5
	// Added b 5
}

// Objects are shared. The detector finds who writes to one all the same.
func ExampleOptions_onMutation() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		OnMutation: func(m store.Mutation) { fmt.Println(m) },
	}))
	_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-7"}})

	pod, _ := s.Get(object.Key{Namespace: "shop", Name: "web"})
	pod.Spec.NodeName = "node-8" // should have been a pod.DeepCopy()
	s.CheckMutations()           // or wait until the object is replaced or deleted
	// Output: object "shop/web" was written to by a reader: Spec.NodeName was "node-7", is "node-8"
}

// Types without DeepCopyObject bring their own copy for the detector.
func ExampleOptions_copy() {
	type Quota struct {
		Team   string
		Limits map[string]int
	}
	s := store.Must(store.New(
		object.Keyed(func(q *Quota) object.Key { return object.Key{Name: q.Team} }),
		store.Options[*Quota]{
			OnMutation: func(m store.Mutation) { fmt.Println(m.Path, "was", m.Was, "is", m.Is) },
			Copy: func(q *Quota) *Quota {
				c := &Quota{Team: q.Team, Limits: map[string]int{}}
				for k, v := range q.Limits {
					c.Limits[k] = v
				}
				return c
			},
		},
	))
	_ = s.Set(&Quota{Team: "shop", Limits: map[string]int{"cpu": 10}})
	quota, _ := s.Get(object.Key{Name: "shop"})
	quota.Limits["cpu"]++
	s.Delete(object.Key{Name: "shop"})
	// Output: Limits["cpu"] was 10 is 11
}

// An index that says what it reads lets a compact mirror hold objects as they are received, without
// decoding them.
func ExampleIndex_Reads() {
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }).
		Reads(object.FieldPath{"spec", "nodeName"})
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{
		Form: store.Packed((*corev1.Pod).Marshal, func(data []byte) (*corev1.Pod, error) {
			p := new(corev1.Pod)
			return p, p.Unmarshal(data)
		}),
		Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
	}))
	fmt.Println(s.Encoder(func() bool { return false }).Reads)
	// Output: [spec.nodeName]
}
