package apiserver_test

import (
	"fmt"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func ExampleServer_Import() {
	srv, err := apiserver.New(apiserver.Options{AnyNamespace: true})
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-of-" + object.UID(name), Finalizers: []string{"example.com/f"}}}
	}
	show := func(what string) {
		objs, err := srv.Objects(pods)
		fmt.Print(what, " at ", srv.Version(), ":")
		for _, obj := range objs {
			p := obj.(*corev1.Pod)
			fmt.Print(" ", p.Name, " ", p.UID, "@", p.ResourceVersion)
		}
		fmt.Println("", err)
	}
	srv.Import(pods, 500, []runtime.Object{pod("api"), pod("web")})
	show("both")
	srv.Import(pods, 0, nil, object.Key{Namespace: "shop", Name: "api"}) // in spite of the finalizer
	show("one")
	srv.Import(pods, 600, nil)
	show("later")
	if err := srv.Restore(pods, 450, pod("db")); err != nil {
		panic(err)
	}
	show("backup")

	// Output:
	// both at 500: api uid-of-api@500 web uid-of-web@500 <nil>
	// one at 501: web uid-of-web@500 <nil>
	// later at 600: web uid-of-web@500 <nil>
	// backup at 450: db uid-of-db@450 <nil>
}
