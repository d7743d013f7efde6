package builtin_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/clientgo/builtin"
	"github.com/tarnproject/tarn/wire"
)

func ExampleNewListWatch() {
	client, err := wire.New(&rest.Config{Host: "https://example.com"}, wire.Options{})
	if err != nil {
		panic(err)
	}
	lw, ok, err := builtin.NewListWatch(client, &corev1.Pod{}, clientgo.ListWatchOptions{Namespace: "shop"})
	fmt.Println(lw != nil, ok, err)
	// Output: true true <nil>
}

// TestEveryBuiltinKindThatHasAListIsKnown holds the table against client-go's scheme.
func TestEveryBuiltinKindThatHasAListIsKnown(t *testing.T) {
	client, err := wire.New(&rest.Config{Host: "https://example.com"}, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		if !strings.HasPrefix(goType.PkgPath(), "k8s.io/api/") || strings.HasSuffix(gvk.Kind, "List") || !scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List")) {
			continue
		}
		obj := reflect.New(goType).Interface().(runtime.Object)
		if _, ok, err := builtin.NewListWatch(client, obj, clientgo.ListWatchOptions{}); !ok || err != nil {
			t.Errorf("%v: known %v, %v", gvk, ok, err)
		}
		known++
	}
	if _, ok, _ := builtin.NewListWatch(client, &metav1.Status{}, clientgo.ListWatchOptions{}); ok {
		t.Error("a Status can be listed")
	}
	if known < 100 {
		t.Errorf("only %d kinds looked at", known)
	}
}
