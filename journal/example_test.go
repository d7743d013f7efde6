package journal_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// A recorder writes the state of a store, and what each batch changes. A later process reads it.
func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	j, err := journal.New(dir, journal.Options{})
	if err != nil {
		panic(err)
	}
	defer j.Close()

	type config = *corev1.ConfigMap
	configs := store.Must(store.New(object.Meta[config](), store.Options[config]{}))
	if err := configs.Set(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "7"}}); err != nil {
		panic(err)
	}
	id := journal.Identity{Server: "a", Resource: "v1/configmaps", Form: "ConfigMap"}
	recorder := journal.NewRecorder(j.Log("configmaps"), journal.MirrorOptions[config]{
		Cut:      func(f func(store.Snapshot[config])) { f(configs.Snapshot()) },
		Encode:   func(c config) ([]byte, error) { return c.Marshal() },
		Identity: func(context.Context) (journal.Identity, error) { return id, nil },
		Allowed:  func() error { return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		recorder.Run(ctx)
	}()
	for !recorder.Status().Writing { // a program goes on with its work
	}
	cancel()
	<-done

	_, err = j.Log("configmaps").Load(id, func() {}, func(e *journal.Entry) { fmt.Println(e.Kind, e.Key, e.Version) })
	if err != nil {
		panic(err)
	}
	id.Labels = "app=web"
	_, err = j.Log("configmaps").Load(id, func() {}, func(*journal.Entry) {})
	fmt.Println(err)
	// Output:
	// Added shop/web 7
	// journal: the state has another label selector: "", the mirror "app=web"
}
