package stream

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"reflect"
	goruntime "runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// region is writable memory of an object, or a string.
type region struct {
	from, to uintptr
	object   int
	path     string
	text     bool
}

// regions is the memory of an object: everything that pointers and maps refer to, and slices up to
// their capacity, because append writes there.
type regions []region

func (r *regions) add(from, size uintptr, object int, path string, text bool) {
	if from != 0 && size > 0 {
		*r = append(*r, region{from, from + size, object, path, text})
	}
}

func (r *regions) walk(v reflect.Value, object int, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.add(v.Pointer(), v.Type().Elem().Size(), object, path, false)
			r.walk(v.Elem(), object, path)
		}
	case reflect.Interface:
		r.walk(v.Elem(), object, path)
	case reflect.Slice:
		r.add(v.Pointer(), uintptr(v.Cap())*v.Type().Elem().Size(), object, path, false)
		for i := range v.Len() {
			r.walk(v.Index(i), object, fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		r.add(v.Pointer(), 1, object, path, false)
		for it := v.MapRange(); it.Next(); {
			r.walk(it.Key(), object, path+" key")
			r.walk(it.Value(), object, fmt.Sprintf("%s[%v]", path, it.Key()))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return // package time owns its location
		}
		for i := range v.NumField() {
			r.walk(v.Field(i), object, path+"."+v.Type().Field(i).Name)
		}
	case reflect.String:
		s := v.String()
		r.add(uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(len(s)), object, path, true)
	}
}

// shared describes two overlapping writable parts, of which at least one belongs to the object
// from or a later one; "" if there are none.
func (r regions) shared(from int) string {
	r = slices.Clone(r)
	slices.SortFunc(r, func(a, b region) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	// Equal strings are shared and many, but immutable.
	r = slices.CompactFunc(r, func(a, b region) bool { return a.text && b.text && a.from == b.from && a.to == b.to })
	for i := range r {
		for j := i + 1; j < len(r) && r[j].from < r[i].to; j++ {
			if (!r[i].text || !r[j].text) && max(r[i].object, r[j].object) >= from {
				return fmt.Sprintf("%s of object %d and %s of object %d", r[i].path, r[i].object, r[j].path, r[j].object)
			}
		}
	}
	return ""
}

// fill sets every field that protobuf and JSON encode, with the same values in each object.
func fill(v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*p = resource.MustParse("1500m")
		return
	case *metav1.Time:
		p.Time = time.Unix(1e9, 0)
		return
	case *metav1.MicroTime:
		p.Time = time.Unix(1e9, 0)
		return
	case *intstr.IntOrString:
		*p = intstr.FromString("http")
		return
	case *metav1.FieldsV1:
		p.SetRawBytes([]byte(`{"f:a":{}}`))
		return
	case *metav1.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range 2 {
				fill(v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		if depth > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for i := range 2 {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				key.SetString(fmt.Sprint("key-", i))
				fill(value, depth-1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth)
			}
		}
	case reflect.String:
		v.SetString("some text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1234)
	case reflect.Uint8:
		v.SetUint(7)
	}
}

// O01: objects of a request with Owned share no part with each other, in any encoding. Without
// Owned the same objects do, or this test would prove nothing.
func TestO01_OwnedObjectsShareNothing(t *testing.T) {
	for _, e := range encodings {
		ownsAll(t, e, wire.MustOf[*corev1.Pod](), func() *corev1.Pod { return &corev1.Pod{} })
		ownsAll(t, e, wire.MustOf[*corev1.Secret](), func() *corev1.Secret { return &corev1.Secret{} })
		ownsAll(t, e, wire.MustOf[*corev1.ConfigMap](), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		ownsAll(t, e, wire.MustOf[*corev1.Node](), func() *corev1.Node { return &corev1.Node{} })
		ownsAll(t, e, wire.MustOf[*appsv1.Deployment](), func() *appsv1.Deployment { return &appsv1.Deployment{} })
		ownsAll(t, e, wire.Metadata(wire.MustOf[*corev1.Pod]().Resource), func() *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
		})
	}
	owns(t, "unstructured", wire.JSON, wire.Unstructured(wire.MustOf[*corev1.Pod]().Resource), func() *unstructured.Unstructured {
		p := &corev1.Pod{}
		fill(reflect.ValueOf(p).Elem(), 4)
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wiretest.Named(p))
		if err != nil {
			panic(err)
		}
		return &unstructured.Unstructured{Object: tree}
	})
}

func ownsAll[T runtime.Object](t *testing.T, e wire.Encoding, res wire.Resource[T], make func() T) {
	owns(t, fmt.Sprintf("%T", make()), e, res.Encoded(e), func() T {
		obj := make()
		fill(reflect.ValueOf(obj).Elem(), 4)
		return obj
	})
}

func owns[T runtime.Object](t *testing.T, name string, e wire.Encoding, res wire.Resource[T], template func() T) {
	t.Run(fmt.Sprintf("%v/%s", e, name), func(t *testing.T) {
		var events []byte
		for i := range 5 {
			obj := template()
			m := wiretest.Must(meta.Accessor(obj))(t)
			m.SetName(fmt.Sprint("obj-", i))
			m.SetUID(types.UID(fmt.Sprint("uid-", i)))
			m.SetResourceVersion(fmt.Sprint(1000 + i))
			events = append(events, encodeEvent(e, []string{"ADDED", "MODIFIED", "DELETED"}[i%3], obj)...)
		}
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return bytes.NewReader(events) }), res, Options{})
		for _, owned := range []bool{false, true} {
			st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{}, &object.Intake[T]{Unshared: owned}))(t)
			got, err := drain(st)
			st.Close()
			if err != io.EOF || len(got) != 5 {
				t.Fatalf("%d events, %v", len(got), err)
			}
			var r regions
			for i := range got {
				if got[i].Item.Err != nil {
					t.Fatal(got[i].Item.Err)
				}
				r.walk(reflect.ValueOf(got[i].Item.Object), i, "")
			}
			if found := r.shared(0); owned && found != "" {
				t.Errorf("owned objects share %s", found)
			} else if !owned && found == "" {
				t.Error("the template has nothing that is shared without Owned")
			}
			goruntime.KeepAlive(got)
		}
	})
}

// The same for the items of a list.
func TestO01_OwnedItemsOfAListShareNothing(t *testing.T) {
	for _, e := range encodings {
		list := podList(200)
		for i := range list.Items {
			list.Items[i].Annotations = map[string]string{"a": "b", "c": "d"}
		}
		src := bytesSource(t, e, wireBytes(e, list), Options{parallel: 4})
		for _, owned := range []bool{false, true} {
			var r regions
			var pods []*corev1.Pod
			_, err := src.List(t.Context(), object.ListOptions{}, &object.Intake[*corev1.Pod]{Unshared: owned}, func(item object.Item[*corev1.Pod]) error {
				pods = append(pods, item.Object) // keep it alive, or its memory is reused
				r.walk(reflect.ValueOf(item.Object), len(pods), item.Key.Name)
				return item.Err
			})
			if found := r.shared(0); err != nil || (found == "") != owned {
				t.Errorf("%v: owned %v: %v, shared: %s", e, owned, err, found)
			}
			goruntime.KeepAlive(pods)
		}
	}
}

// O05: a deep copy of an object that shares parts shares none.
func TestO05_DeepCopiesShareNothing(t *testing.T) {
	for _, e := range encodings {
		full := &corev1.Pod{}
		fill(reflect.ValueOf(full).Elem(), 4)
		list := &corev1.PodList{Items: []corev1.Pod{*full, *full, *full, *full}}
		items, _, err := collect(bytesSource(t, e, wireBytes(e, list), Options{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		var r regions
		copies := make([]*corev1.Pod, len(items)) // keep them alive, or their memory is reused
		for i, item := range items {
			copies[i] = item.Object.DeepCopy()
			r.walk(reflect.ValueOf(item.Object), i, "")
			r.walk(reflect.ValueOf(copies[i]), i+len(items), " copy")
		}
		if found := r.shared(len(items)); found != "" {
			t.Errorf("%v: a copy shares %s", e, found)
		}
		if r.shared(0) == "" {
			t.Errorf("%v: the originals share nothing", e)
		}
		goruntime.KeepAlive(items)
		goruntime.KeepAlive(copies)
	}
}
