package intern

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestO02_WhichTypesReadingMayWriteTo(t *testing.T) {
	for _, c := range []struct {
		of                any
		volatile, reaches bool
	}{
		{resource.Quantity{}, true, true},
		{[2]resource.Quantity{}, true, true},
		{corev1.ResourceFieldSelector{}, true, true},
		{corev1.EmptyDirVolumeSource{}, false, true}, // behind a pointer
		{corev1.Container{}, false, true},
		{corev1.Pod{}, false, true},
		{[]resource.Quantity{}, false, true},
		{struct{ hidden int }{}, true, true},
		{metav1.Time{}, false, false},
		{metav1.MicroTime{}, false, false},
		{metav1.Duration{}, false, false},
		{metav1.FieldsV1{}, false, false},
		{metav1.ObjectMeta{}, false, false},
		{intstr.IntOrString{}, false, false},
		{runtime.RawExtension{}, false, false},
		{map[string]struct{ Hidden corev1.Toleration }{}, false, false},
	} {
		typ := reflect.TypeOf(c.of)
		if v, r := Volatile(typ), Reaches(typ); v != c.volatile || r != c.reaches {
			t.Errorf("%v: volatile %v, reaches %v", typ, v, r)
		}
	}
}

func TestO02_DecimalsAreFound(t *testing.T) {
	for text, want := range map[string]bool{"1": false, "100m": false, "1.5": false, "1.5Gi": true, "9E": false, "0": false, "123456789012345678901234": true, "1.23456789012345678n": true} {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		dec := q.DeepCopy()
		if dec.AsDec(); !HasDecimal(&dec) || HasDecimal(&q) != want {
			t.Errorf("%s: %v", text, HasDecimal(&q))
		}
	}
}
