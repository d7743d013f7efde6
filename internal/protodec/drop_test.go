package protodec

import (
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// without is the slow way: it takes the field that path leads to out of a decoded value.
func without(v reflect.Value, path object.FieldPath) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			without(v.Elem(), path)
		}
	case reflect.Slice:
		for i := range v.Len() {
			without(v.Index(i), path)
		}
	case reflect.Map:
		v.SetMapIndex(reflect.ValueOf(path[0]).Convert(v.Type().Key()), reflect.Value{})
		if v.Len() == 0 {
			v.SetZero()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			sf := v.Type().Field(i)
			name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
			switch {
			case name == "" && (sf.Anonymous || options == "inline"):
				without(v.Field(i), path)
			case name == path[0] && len(path) == 1:
				v.Field(i).SetZero()
			case name == path[0]:
				without(v.Field(i), path[1:])
			}
		}
	}
}

// pathsOf returns every path of at most depth parts into t.
func pathsOf(t reflect.Type, depth int) []object.FieldPath {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if depth == 0 || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(jsonDecoder) {
		return nil
	}
	var paths []object.FieldPath
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "" && (sf.Anonymous || options == "inline") {
			paths = append(paths, pathsOf(sf.Type, depth)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		paths = append(paths, object.FieldPath{name})
		for _, rest := range pathsOf(sf.Type, depth-1) {
			paths = append(paths, slices.Concat(object.FieldPath{name}, rest))
		}
	}
	return paths
}

func TestDroppingEqualsDecodingAndTakingOut(t *testing.T) {
	rng, fill := rand.New(rand.NewSource(4)), decodertest.Filler(4)
	share, strings := intern.NewParts(0), intern.NewStrings(0)
	dropped, trimmed := 0, 0
	var buf []byte
	for _, typ := range soak.Part(kinds()) {
		paths := pathsOf(typ, 4)
		if len(paths) == 0 {
			continue
		}
		for range 3 {
			var drop []object.FieldPath
			for range 1 + rng.Intn(3) {
				drop = append(drop, paths[rng.Intn(len(paths))])
			}
			// All have the same tables: what was shared with a field must not turn
			// up where it is dropped.
			e, err := newEngine(typ, Options{Drop: drop, Share: share, Strings: strings})
			if err != nil {
				t.Fatal(err)
			}
			whole, err := newEngine(typ, Options{Share: share, Strings: strings})
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				raw, err := sample(typ, fill)
				if err != nil {
					t.Fatal(err)
				}
				all, _ := byGenerated(typ, raw)
				want, _ := byGenerated(typ, raw)
				for _, path := range drop {
					without(reflect.ValueOf(want), path)
				}
				if !reflect.DeepEqual(all, want) {
					dropped++
				}
				if short, ok := e.trim(raw, &buf); ok {
					trimmed++
					if got, err := byGenerated(typ, short); err != nil || !reflect.DeepEqual(got, want) {
						t.Fatalf("%s trimmed of %v, error %v:\n got %#v\nwant %#v", typ, drop, err, got, want)
					}
				}
				for range 3 {
					p, err := e.decode(raw)
					if err != nil {
						t.Fatal(err)
					}
					if got := reflect.NewAt(typ, p).Interface(); !reflect.DeepEqual(got, want) {
						t.Fatalf("%s without %v:\n got %#v\nwant %#v", typ, drop, got, want)
					}
					if p, err = whole.decode(raw); err != nil {
						t.Fatal(err)
					}
					if got := reflect.NewAt(typ, p).Interface(); !reflect.DeepEqual(got, all) {
						t.Fatalf("%s: %v dropped elsewhere is missing here", typ, drop)
					}
				}
			}
		}
	}
	if least := len(soak.Part(make([]int, 500))); dropped < least || trimmed < least {
		t.Errorf("only %d objects had anything to drop, and %d could be trimmed", dropped, trimmed)
	}
}

func TestMapEntriesAreDroppedByKey(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"a.example.com/x": "1", "keep": "2", object.LastApplied[2]: "{}"},
		Labels:      map[string]string{"only": "this"},
	}}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d, err := For[*corev1.Pod](Options{Drop: []object.FieldPath{
		object.LastApplied, {"metadata", "annotations", "a.example.com/x"}, {"metadata", "labels", "only"}, {"metadata", "labels", "other"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Decode(raw)
	want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"keep": "2"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
}

func TestAPathMayNameWhatProtobufDoesNotHave(t *testing.T) {
	if _, err := For[*corev1.Pod](Options{Drop: []object.FieldPath{{"kind"}, {"apiVersion"}}}); err != nil {
		t.Error(err)
	}
}

func TestAWrongPathIsNamedWithItsPart(t *testing.T) {
	for want, path := range map[string]object.FieldPath{
		`protodec: field path "metadata.managedfields": v1.ObjectMeta has no field "managedfields"`:                           {"metadata", "managedfields"},
		`protodec: field path "spec.template.spec.containers.foo": v1.Container has no field "foo"`:                           {"spec", "template", "spec", "containers", "foo"},
		`protodec: field path "metadata.labels.app.more": "more" is below an entry of a map, which can only be dropped whole`: {"metadata", "labels", "app", "more"},
		`protodec: field path "metadata.creationTimestamp.Time": v1.Time has no field "Time"`:                                 {"metadata", "creationTimestamp", "Time"},
		`protodec: field path "spec.replicas.x": int32 has no field "x"`:                                                      {"spec", "replicas", "x"},
		`protodec: field path "spec.template.spec.volumes.volumeSource": v1.Volume has no field "volumeSource"`:               {"spec", "template", "spec", "volumes", "volumeSource"},
		`protodec: field path "[]": v1.Deployment has no field ""`:                                                            {""},
		"protodec: a field path to drop is empty":                                                                             {},
	} {
		_, err := For[*appsv1.Deployment](Options{Drop: []object.FieldPath{path}})
		if err == nil || err.Error() != want {
			t.Errorf("%v:\n got %v\nwant %s", path, err, want)
		}
	}
	if _, err := For[*appsv1.Deployment](Options{Drop: []object.FieldPath{{"spec", "template", "spec", "volumes", "secret"}}}); err != nil {
		t.Errorf("an inlined field: %v", err)
	}
}

func TestOnlyTheNamedFieldsAreDecoded(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web", "tier": "1"}, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "n", Hostname: "h", Containers: []corev1.Container{{Name: "c", Image: "i"}, {Image: "j"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d, err := For[*corev1.Pod](Options{Only: []object.FieldPath{
		{"metadata", "labels", "app"}, {"spec", "nodeName"}, {"spec", "containers", "image"}, {"spec", "nowhere"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Image: "i"}, {Image: "j"}}},
	}
	if got, err := d.Decode(raw); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %+v\nwant %+v", err, got, want)
	}
	if d, err = For[*corev1.Pod](Options{Only: []object.FieldPath{}}); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Decode(raw); err != nil || !reflect.DeepEqual(got, &corev1.Pod{}) {
		t.Errorf("got %v, %+v, want nothing", err, got)
	}
}
