package controller_test

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var namespaces = object.Resource{Version: "v1", Resource: "namespaces", Kind: "Namespace"}

// welcomer ensures that every namespace has a config map with a greeting.
type welcomer struct {
	namespaces *informer.Informer[*corev1.Namespace]
	configMaps *client[*corev1.ConfigMap]
	greeted    chan string // for this example; has room for every key
}

func (w *welcomer) Reconcile(ctx context.Context, key object.Key) (controller.Result, error) {
	ns, ok := w.namespaces.Get(key)
	if !ok {
		return controller.Result{}, nil // deleted, including its config map
	}
	text := "Welcome to " + ns.Name
	have, ok, err := w.configMaps.Get(object.Key{Namespace: ns.Name, Name: "welcome"})
	switch {
	case err != nil:
		return controller.Result{}, err
	case !ok:
		have = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "welcome"}}
		have.Data = map[string]string{"text": text}
		if err := controller.SetOwner(have, ns, namespaces); err != nil {
			return controller.Result{}, controller.Terminal(err)
		}
		_, err = w.configMaps.Create(ctx, have, none{})
	case have.Data["text"] != text:
		have = have.DeepCopy() // cached objects are shared
		have.Data = map[string]string{"text": text}
		_, err = w.configMaps.Update(ctx, have, none{})
	default:
		w.greeted <- text
	}
	return controller.Result{}, err
}

// A complete controller. Here the API servers are in memory; in a real program package wire
// provides both clients.
func Example() {
	nsServer, cmServer := simtest.New[*corev1.Namespace](100), simtest.New[*corev1.ConfigMap](100)
	nss, cms := newInformer("namespaces", nsServer), newInformer("configmaps", cmServer)
	w := &welcomer{namespaces: nss, configMaps: newClient(cmServer, cms), greeted: make(chan string, 100)}
	c, err := controller.New("welcome", w.Reconcile, controller.Options[object.Key]{Workers: 2},
		controller.For(nss), controller.Owns(cms, nss))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- controller.Run(ctx, nss, cms, c) }()

	nsServer.Set("shop") // a user creates a namespace,
	fmt.Println(<-w.greeted)
	cmServer.Set("shop/welcome", func(cm *corev1.ConfigMap) { cm.Data = nil }) // removes the greeting,
	fmt.Println(<-w.greeted)
	deleteAsUser(cmServer, "shop/welcome") // and deletes the config map.
	fmt.Println(<-w.greeted)

	stop()
	fmt.Println(<-done)
	// Output:
	// Welcome to shop
	// Welcome to shop
	// Welcome to shop
	// <nil>
}
