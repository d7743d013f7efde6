package intern_test

import (
	"encoding/json"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/jsondec"
	"github.com/tarnproject/tarn/internal/protodec"
	"github.com/tarnproject/tarn/internal/soak"
)

// codec is one format and its decoder, of a struct type, which takes parts from a table.
type codec struct {
	encode  func(obj any) ([]byte, error)
	decoder func(reflect.Type, *intern.Parts) (interface{ Decode([]byte) (any, error) }, error)
}

var codecs = map[string]codec{
	"json": {json.Marshal, func(t reflect.Type, parts *intern.Parts) (interface{ Decode([]byte) (any, error) }, error) {
		return jsondec.For[any](jsondec.Options{Type: reflect.PointerTo(t), Share: parts})
	}},
	"protobuf": {func(obj any) ([]byte, error) { return obj.(interface{ Marshal() ([]byte, error) }).Marshal() },
		func(t reflect.Type, parts *intern.Parts) (interface{ Decode([]byte) (any, error) }, error) {
			return protodec.For[any](protodec.Options{Type: reflect.PointerTo(t), Share: parts})
		}},
}

// copies decodes obj n times with one table, after the table knows all of its parts.
func (c codec) copies(t *testing.T, obj reflect.Value, n int) []reflect.Value {
	t.Helper()
	decoder, err := c.decoder(obj.Type().Elem(), intern.NewParts(0))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.encode(obj.Interface())
	if err != nil {
		t.Fatal(err)
	}
	all := make([]reflect.Value, n+4)
	for i := range all {
		p, err := decoder.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = reflect.ValueOf(p)
	}
	return all[4:]
}

// The race detector decides.
func TestO02_QuantitiesOfDifferentObjectsAreReadConcurrently(t *testing.T) {
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			for _, obj := range c.copies(t, reflect.ValueOf(quantified()), 8) {
				pod := obj.Interface().(*corev1.Pod)
				group.Go(func() {
					for _, c := range pod.Spec.Containers {
						read(&c.Env[0].ValueFrom.ResourceFieldRef.Divisor)
						for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests, pod.Spec.Overhead} {
							for _, q := range list {
								read(&q)
								q.Add(resource.MustParse("1")) // to a copy
							}
						}
					}
					read(pod.Spec.Volumes[0].EmptyDir.SizeLimit)
					read(&pod.Spec.Volumes[1].DownwardAPI.Items[0].ResourceFieldRef.Divisor)
				})
			}
			group.Wait()
		})
	}
}

// Equal objects have no memory in common that reading may write to.
func TestO02_NothingThatReadingWritesToIsShared(t *testing.T) {
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) {
			fill, found := decodertest.Filler(3).NilChance(0.1).NumElements(0, 2).MaxDepth(14), 0
			for _, kind := range soak.Part(decodertest.Kinds()) {
				if !intern.Reaches(kind) || name == "protobuf" && protodec.Supported(kind) != nil {
					continue
				}
				obj := reflect.New(kind)
				fill.Fill(obj.Interface())
				found += checkApart(t, c.copies(t, obj, 3))
			}
			if n := checkApart(t, c.copies(t, reflect.ValueOf(quantified()), 4)); n == 0 || found == 0 {
				t.Errorf("%d and %d quantities: the test covers nothing", n, found)
			}
		})
	}
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

// read calls the methods that read a quantity and may write to it.
func read(q *resource.Quantity) {
	_, _ = q.String(), q.AsDec()
	q.Cmp(resource.MustParse("0.0001"))
	_, _ = q.MarshalJSON()
	_, _ = q.Value(), q.MilliValue()
}

// checkApart fails if two of the objects have an address in common that volatile notes. It
// returns the number of addresses.
func checkApart(t *testing.T, objects []reflect.Value) int {
	t.Helper()
	all := map[uintptr]bool{}
	for _, obj := range objects {
		own := map[uintptr]bool{}
		volatile(obj, own)
		for at := range own {
			if all[at] {
				t.Fatalf("two objects of type %v share memory that reading writes to", obj.Type())
			}
			all[at] = true
		}
	}
	return len(all)
}

// volatile notes the addresses that reading the value may write to.
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
