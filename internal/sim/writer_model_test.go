package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/tarnproject/tarn/object"
)

// Writer changes a server at random: few names in few namespaces, so that the same ones
// are created, changed and deleted again and again. One goroutine uses it.
type Writer struct {
	server *Server
	rand   *rand.Rand
	keys   []object.Key
}

// NewWriter makes a writer of a number of names in each namespace.
func NewWriter(server *Server, r *rand.Rand, names int, namespaces ...string) *Writer {
	w := &Writer{server: server, rand: r}
	for _, ns := range namespaces {
		for i := range names {
			w.keys = append(w.keys, object.Key{Namespace: ns, Name: fmt.Sprintf("t%d", i)})
		}
	}
	return w
}

// tiers are the values of the label that selections look at.
var tiers = [...]string{"a", "b", "c"}

func (w *Writer) labels() map[string]string {
	return map[string]string{"tier": tiers[w.rand.IntN(len(tiers))]}
}

// Write does one thing to one object, or replaces it by another of the same name, or deletes
// several at one version. It uses up to 6 versions.
func (w *Writer) Write() {
	k := w.keys[w.rand.IntN(len(w.keys))]
	if w.server.Create(k, w.labels()) {
		return
	}
	switch w.rand.IntN(9) {
	case 0, 1:
		w.server.Delete(k)
	case 8: // and others with it
		keys := []object.Key{k}
		for range 1 + w.rand.IntN(4) {
			keys = append(keys, w.keys[w.rand.IntN(len(w.keys))])
		}
		w.server.DeleteTogether(keys...)
	case 2: // another object of the same name, between two looks of a watch
		w.server.Delete(k)
		w.server.Create(k, w.labels())
	case 3:
		labels := w.labels()
		w.server.Update(k, func(t *Thing, _ int) { t.Labels = labels })
	case 4, 5:
		w.server.Update(k, func(t *Thing, unique int) { t.Status = unique })
	default:
		w.server.Update(k, func(t *Thing, unique int) {
			t.Spec = unique
			t.Generation++
		})
	}
}

// Touch writes a new version of each object that there is among keys.
func (w *Writer) Touch(keys []object.Key) {
	for _, k := range keys {
		w.server.Update(k, func(t *Thing, unique int) { t.Status = unique })
	}
}
