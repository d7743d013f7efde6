package jsondec

import (
	"encoding/json"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

// volatile notes what reading the value may write to, by address.
func volatile(v reflect.Value, into map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			volatile(v.Elem(), into)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			volatile(v.Index(i), into)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			volatile(it.Value(), into)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return // all have their zone in common
		}
		if v.CanAddr() && intern.Volatile(v.Type()) {
			into[v.UnsafeAddr()] = true
		}
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			if dec := v.FieldByName("d").Field(0); !dec.IsNil() {
				into[dec.Pointer()] = true
			}
			return
		}
		for i := range v.NumField() {
			volatile(v.Field(i), into)
		}
	}
}

// checkNothingVolatileIsShared compares objects that were decoded from the same bytes.
func checkNothingVolatileIsShared(t *testing.T, objects []reflect.Value) (found int) {
	t.Helper()
	all := map[uintptr]bool{}
	for _, obj := range objects {
		own := map[uintptr]bool{}
		volatile(obj, own)
		for at := range own {
			if all[at] {
				t.Fatalf("two objects of type %v share something that reading writes to", obj.Type())
			}
			all[at] = true
		}
	}
	return len(all)
}

// quantified is a pod with quantities wherever a pod may have them.
func quantified() *corev1.Pod {
	one, odd, long := resource.MustParse("1"), resource.MustParse("1.5"), resource.MustParse("123456789012345678901234")
	resources := corev1.ResourceList{"cpu": odd, "memory": one, "example.com/long": long}
	ref := &corev1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: odd}
	container := corev1.Container{
		Name: "web", Env: []corev1.EnvVar{{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: ref}}},
		Resources: corev1.ResourceRequirements{Limits: resources, Requests: resources},
	}
	return &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{container, container}, Overhead: resources,
		Volumes: []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &odd}}},
			{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "cpu", ResourceFieldRef: ref}}}}},
		},
	}}
}

// use calls what reads a quantity and may write to it.
func use(q *resource.Quantity) {
	_, _ = q.String(), q.AsDec()
	q.Cmp(resource.MustParse("0.0001"))
	_, _ = q.MarshalJSON()
	_, _ = q.Value(), q.MilliValue()
}

// The race detector is what decides. Each goroutine has an object of its own.
func TestO02_QuantitiesOfDifferentObjectsAreReadAtTheSameTime(t *testing.T) {
	var group sync.WaitGroup
	for _, pod := range decodeCopies(t, quantified(), 8) {
		group.Go(func() {
			for _, c := range pod.Spec.Containers {
				use(&c.Env[0].ValueFrom.ResourceFieldRef.Divisor)
				for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests, pod.Spec.Overhead} {
					for _, q := range list {
						use(&q)
						q.Add(resource.MustParse("1")) // of a copy
					}
				}
			}
			use(pod.Spec.Volumes[0].EmptyDir.SizeLimit)
			use(&pod.Spec.Volumes[1].DownwardAPI.Items[0].ResourceFieldRef.Divisor)
		})
	}
	group.Wait()
}

// decodeCopies decodes the same bytes n times with one table, after the table knows them.
func decodeCopies(t *testing.T, pod *corev1.Pod, n int) []*corev1.Pod {
	t.Helper()
	d, err := For[*corev1.Pod](Options{Share: NewSharing(0)})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	pods := make([]*corev1.Pod, n+4)
	for i := range pods {
		if pods[i], err = d.Decode(raw); err != nil {
			t.Fatal(err)
		}
	}
	return pods[4:]
}

func TestO02_NothingThatReadingWritesToIsShared(t *testing.T) {
	fill, found := filler(3).NilChance(0.1), 0
	for _, kind := range soak.Part(kinds()) {
		if !intern.Reaches(kind) {
			continue
		}
		m, err := newMachine(reflect.PointerTo(kind), Options{Share: NewSharing(0)})
		if err != nil {
			t.Fatal(err)
		}
		obj := reflect.New(kind)
		fill.Fill(obj.Interface())
		raw, err := json.Marshal(obj.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var copies []reflect.Value
		for range 4 {
			p, err := m.decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			copies = append(copies, reflect.NewAt(kind, p))
		}
		found += checkNothingVolatileIsShared(t, copies)
	}
	var copies []reflect.Value
	for _, pod := range decodeCopies(t, quantified(), 4) {
		copies = append(copies, reflect.ValueOf(pod))
	}
	if n := checkNothingVolatileIsShared(t, copies); n == 0 || found == 0 {
		t.Errorf("%d and %d quantities: the test covers nothing", n, found)
	}
}
