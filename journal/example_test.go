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
	mirror := journal.MirrorOptions[config]{
		Cut:      func(f func(store.Snapshot[config])) { f(configs.Snapshot()) },
		Encode:   func(c config) ([]byte, error) { return c.Marshal() },
		Decode:   func(data []byte) (config, error) { c := new(corev1.ConfigMap); return c, c.Unmarshal(data) },
		Identity: func(context.Context) (journal.Identity, error) { return id, nil },
		Allowed:  func() error { return nil },
	}
	recorder := journal.NewRecorder(j.Log("configmaps"), mirror)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		recorder.Run(ctx)
	}()
	for !recorder.Status().Writing { // a program goes on with its work
	}
	batch := &object.Batch[config]{Changes: []object.Change[config]{{Kind: object.Deleted, Key: object.RawKey("shop/web"), UID: "1", Version: "8"}}}
	changes, err := configs.Apply(batch, nil)
	if err != nil {
		panic(err)
	}
	recorder.Applied(batch, changes, configs.Snapshot())
	cancel()
	<-done

	_, err = j.Log("configmaps").Load(id, func() {}, func(e *journal.Entry) { fmt.Println(e.Kind, e.Key, e.Version) })
	if err != nil {
		panic(err)
	}
	id.Labels = "app=web"
	_, err = j.Log("configmaps").Load(id, func() {}, func(*journal.Entry) {})
	fmt.Println(err)
	// A mirror reads from this source instead of from the server's.
	var server journal.Server[config]
	var source *journal.Source[config] = journal.NewSource(server, j.Log("configmaps"), mirror)
	var began journal.Resumption = source.Resumption()
	fmt.Println("continued:", began.Resumed)
	// Output:
	// Added shop/web 7
	// Deleted shop/web 8
	// journal: the state has another label selector: "", the mirror "app=web"
	// continued: 0
}
