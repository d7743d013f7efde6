package protodec_test

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/protodec"
	"github.com/tarnproject/tarn/object"
)

func encodedPod(name string) []byte {
	raw, err := (&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: "u-1", ResourceVersion: "41",
			Labels:        map[string]string{"app": "web"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1.2.3"}}},
	}).Marshal()
	if err != nil {
		log.Fatal(err)
	}
	return raw
}

// A decoder is made once per type and used for every object.
func ExampleFor() {
	decoder, err := protodec.For[*corev1.Pod](protodec.Options{
		Drop:    []object.FieldPath{object.ManagedFields},
		Strings: intern.NewStrings(0),
	})
	if err != nil {
		log.Fatal(err)
	}
	pod, err := decoder.Decode(encodedPod("web-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Name, pod.Labels, pod.Spec.Containers[0].Image, len(pod.ManagedFields))

	_, err = protodec.For[*corev1.Pod](protodec.Options{Drop: []object.FieldPath{{"metadata", "managedfields"}}})
	fmt.Println(err)
	// Output:
	// web-1 map[app:web] web:1.2.3 0
	// protodec: field path "metadata.managedfields": v1.ObjectMeta has no field "managedfields"
}

// What the pods of a template have in common is held once, from the third pod on.
func ExampleOptions_share() {
	decoder, err := protodec.For[*corev1.Pod](protodec.Options{Share: intern.NewParts(0)})
	if err != nil {
		log.Fatal(err)
	}
	var pods []*corev1.Pod
	for i := range 4 {
		pod, err := decoder.Decode(encodedPod(fmt.Sprint("web-", i)))
		if err != nil {
			log.Fatal(err)
		}
		pods = append(pods, pod)
	}
	fmt.Println(&pods[2].Spec.Containers[0] == &pods[3].Spec.Containers[0])
	// Output: true
}

func ExamplePeek() {
	id, err := protodec.Peek(encodedPod("web-1"))
	fmt.Printf("%s/%s %s %s %v\n", id.Namespace, id.Name, id.UID, id.ResourceVersion, err)
	// Output: shop/web-1 u-1 41 <nil>
}
