package jsondec_test

import (
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/jsondec"
	"github.com/tarnproject/tarn/object"
)

// A decoder is made once and used from everywhere.
func ExampleFor() {
	pods, err := jsondec.For[*corev1.Pod](jsondec.Options{
		Drop:    []object.FieldPath{object.ManagedFields},
		Strings: intern.NewStrings(0),
		Share:   intern.NewParts(0),
	})
	if err != nil {
		panic(err)
	}
	pod, err := pods.Decode([]byte(`{"metadata":{"name":"web","managedFields":[{"manager":"kubelet"}]},"spec":{"nodeName":"node-1"}}`))
	fmt.Println(pod.Name, pod.Spec.NodeName, len(pod.ManagedFields), err)

	_, err = pods.Decode([]byte(`{"metadata":{"name":5}}`))
	fmt.Println(err)
	// Output:
	// web node-1 0 <nil>
	// json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string
}

func ExampleDecoder_Decode_unstructured() {
	d, err := jsondec.For[*unstructured.Unstructured](jsondec.Options{})
	if err != nil {
		panic(err)
	}
	u, err := d.Decode([]byte(`{"kind":"Lake","spec":{"depth":30,"area":0.5}}`))
	fmt.Printf("%s %v %v\n", u.GetKind(), u.Object["spec"], err)
	_, err = d.Decode([]byte(`{"spec":{}}`))
	fmt.Println(err)
	// Output:
	// Lake map[area:0.5 depth:30] <nil>
	// Object 'Kind' is missing in 'an object of the API'
}

func ExamplePeek() {
	id, err := jsondec.Peek([]byte(`{"metadata":{"namespace":"shop","name":"web","uid":"u-1","resourceVersion":"41"},"spec":{}}`))
	fmt.Printf("%s/%s %s %s %v\n", id.Namespace, id.Name, id.UID, id.Version, err)
	// Output: shop/web u-1 41 <nil>
}

func ExampleScanner() {
	body := `{"apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"kind":"PodList","metadata":{"resourceVersion":"7"}}`
	sc := jsondec.NewScanner(strings.NewReader(body), 0)
	for {
		part, err := sc.Next()
		if err == io.EOF {
			fmt.Println("complete, with items:", sc.HasItems())
			return
		} else if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v %s\n", part.Member, part.Raw)
	}
	// Output:
	// apiVersion "v1"
	// items {"metadata":{"name":"a"}}
	// items {"metadata":{"name":"b"}}
	// kind "PodList"
	// metadata {"resourceVersion":"7"}
	// complete, with items: true
}

func ExamplePart_Text() {
	sc := jsondec.NewScanner(strings.NewReader(`{"kind":"PodList"}`), 0)
	part, _ := sc.Next()
	fmt.Println(part.Text())
	// Output: PodList true
}

func ExampleFrames() {
	stream := "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n"
	frames := jsondec.NewFrames(strings.NewReader(stream), 0)
	for {
		batch, err := frames.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, frame := range batch {
			kind, obj, err := jsondec.SplitEvent(frame)
			fmt.Printf("%s %s %v\n", kind, obj, err)
		}
	}
	// Output:
	// ADDED {"kind":"Pod"} <nil>
	// BOOKMARK {} <nil>
	// EOF
}

func ExampleOptions_share() {
	table := intern.NewParts(1 << 20)
	d, err := jsondec.For[*corev1.Pod](jsondec.Options{Share: table})
	if err != nil {
		panic(err)
	}
	var last *corev1.Pod
	for _, name := range []string{"a", "b", "c", "d"} {
		pod, err := d.Decode([]byte(`{"metadata":{"name":"` + name + `"},"spec":{"tolerations":[{"operator":"Exists"}]}}`))
		if err != nil {
			panic(err)
		}
		if last != nil {
			fmt.Println(pod.Name, &pod.Spec.Tolerations[0] == &last.Spec.Tolerations[0])
		}
		last = pod
	}
	// Output:
	// b false
	// c true
	// d true
}
