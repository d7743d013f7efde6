package store_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// A reader that needs a list of everything keeps it in chunks, and reads only those again that have
// changed since its last look.
func ExampleSnapshot_Chunks() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	node := func(i int) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
	}
	for i := range 1000 {
		_ = s.Set(node(i))
	}

	var chunks [][]*corev1.Node
	var revision uint64
	refresh := func() (all []*corev1.Node) {
		snap := s.Snapshot()
		defer snap.Release()
		read := 0
		for i := range snap.Chunks() {
			if i == len(chunks) {
				chunks = append(chunks, nil)
			} else if !snap.Changed(i, revision) {
				continue
			}
			chunks[i] = snap.Chunk(i, chunks[i][:0])
			read += len(chunks[i])
		}
		revision = snap.Revision()
		fmt.Println("read", read)
		return slices.Concat(chunks...)
	}
	fmt.Println(len(refresh()), "nodes")
	s.Delete(object.Key{Name: "node-7"})
	fmt.Println(len(refresh()), "nodes")
	// Output:
	// read 1000
	// 1000 nodes
	// read 255
	// 999 nodes
}

// ChunkKeys decodes no object: a list of names costs the same in every form.
func ExampleSnapshot_ChunkKeys() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))
	for _, name := range []string{"web", "db"} {
		_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	snap := s.Snapshot()
	defer snap.Release()

	for chunk := range snap.Chunks() {
		for _, key := range snap.ChunkKeys(chunk) {
			fmt.Println(key)
		}
	}
	// Unordered output:
	// shop/db
	// shop/web
}
