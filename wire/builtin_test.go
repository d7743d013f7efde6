package wire

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/object"
)

// generated is a resource of client-go's generated clients, which are generated from the tags of
// the API types.
type generated struct {
	object.Resource
	typ reflect.Type // the struct
}

// recorder records the path of the last request and fails every request.
type recorder struct{ path string }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.path = req.URL.Path
	return nil, errors.New("recorded")
}

// generatedClients calls one method of every generated client and records the request path.
func generatedClients(t *testing.T) []generated {
	t.Helper()
	rec := &recorder{}
	set, err := kubernetes.NewForConfig(&rest.Config{Host: "http://server", Transport: rec, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	var out []generated
	groups := reflect.ValueOf(kubernetes.Interface(set))
	groupType := reflect.TypeFor[kubernetes.Interface]()
	for i := range groupType.NumMethod() {
		if groupType.Method(i).Name == "Discovery" {
			continue
		}
		group := groups.MethodByName(groupType.Method(i).Name).Call(nil)[0].Elem()
		iface := groupType.Method(i).Type.Out(0)
		for j := range iface.NumMethod() {
			getter := iface.Method(j)
			if getter.Name == "RESTClient" {
				continue
			}
			var args []reflect.Value
			if getter.Type.NumIn() == 1 {
				args = []reflect.Value{reflect.ValueOf("shop")}
			}
			client := group.MethodByName(getter.Name).Call(args)[0]
			create := client.MethodByName("Create")
			if !create.IsValid() {
				create = client.MethodByName("Get")
			}
			if !create.IsValid() {
				t.Logf("no Create or Get in %s.%s", iface, getter.Name)
				continue
			}
			in := []reflect.Value{reflect.ValueOf(context.Background())}
			if create.Type().In(1).Kind() == reflect.String {
				in = append(in, reflect.ValueOf("web"))
			} else {
				in = append(in, reflect.New(create.Type().In(1).Elem()))
			}
			create.Call(append(in, reflect.Zero(create.Type().In(2))))
			out = append(out, generatedFrom(t, rec.path, create.Type().Out(0).Elem()))
		}
	}
	return out
}

// generatedFrom derives a resource from a path.
func generatedFrom(t *testing.T, p string, typ reflect.Type) generated {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(reflect.New(typ).Interface().(runtime.Object))
	if err != nil || len(kinds) != 1 {
		t.Fatalf("%v has the kinds %v: %v", typ, kinds, err)
	}
	g := generated{typ: typ}
	g.Group, g.Version, g.Kind = kinds[0].Group, kinds[0].Version, kinds[0].Kind
	prefix := "/apis/" + g.Group + "/" + g.Version + "/"
	if g.Group == "" {
		prefix = "/api/" + g.Version + "/"
	}
	rest, ok := strings.CutPrefix(p, prefix)
	if !ok {
		t.Fatalf("%v is served at %s, not below %s", typ, p, prefix)
	}
	rest, g.Namespaced = strings.CutPrefix(rest, "namespaces/shop/")
	g.Resource.Resource, _, _ = strings.Cut(rest, "/")
	return g
}

func TestBuiltinFindsEveryTypeAndItsProtobuf(t *testing.T) {
	all := generatedClients(t)
	if len(all) < 100 {
		t.Fatalf("only %d generated clients found", len(all))
	}
	for _, g := range all {
		if res, ok := builtin(g.typ); !ok || res != g.Resource {
			t.Errorf("builtin(%v) = %+v, %v; want %+v", g.typ, res, ok, g.Resource)
		}
		if _, ok := reflect.New(g.typ).Interface().(interface{ Unmarshal([]byte) error }); !ok {
			t.Errorf("%v cannot be read from protobuf", g.typ)
		}
	}
}

// TestBuiltinsAreNothingElse proves that no other type of k8s.io/api has a resource.
func TestBuiltinsAreNothingElse(t *testing.T) {
	served := map[reflect.Type]bool{reflect.TypeFor[corev1.Binding](): true} // created and never read, so there is no generated client
	for _, g := range generatedClients(t) {
		served[g.typ] = true
	}
	var missing []string
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		pkg, ok := strings.CutPrefix(typ.PkgPath(), builtinRoot)
		if !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok {
			continue
		}
		if _, ok := builtin(typ); ok != served[typ] {
			t.Errorf("%v has a resource: %v", typ, ok)
		} else if !ok {
			missing = append(missing, pkg+"."+typ.Name())
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); !slices.Equal(missing, builtinParts) {
		t.Errorf("kinds that are not in the table: %q\nwant only %q", missing, builtinParts)
	}
}
