package sim

import (
	"fmt"
	"maps"
	"strings"

	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Thing is the object of the simulated resource. Spec and Status are numbers that no
// two writes share, in this history or another, so that a state that is wrong shows
// even where its version is right.
type Thing struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              int `json:"spec"`
	Status            int `json:"status"`
	// History counts the restores before this state was written.
	History int `json:"history"`
}

// Accessor reads a Thing's identity.
var Accessor = object.Meta[*Thing]()

// DeepCopyObject implements [runtime.Object].
func (t *Thing) DeepCopyObject() runtime.Object { return t.clone() }

// GetObjectKind implements [runtime.Object]; a Thing does not know its kind.
func (t *Thing) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// clone copies all that a Thing here has.
func (t *Thing) clone() *Thing {
	c := *t
	c.Labels = maps.Clone(t.Labels)
	return &c
}

func (t *Thing) key() object.Key { return object.Key{Namespace: t.Namespace, Name: t.Name} }

// String names the state in a trace.
func (t *Thing) String() string {
	if t == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s v%s.%d", t.key(), short(t.UID), t.ResourceVersion, t.History)
}

// short is as much of a UID as a trace needs.
func short(uid object.UID) string {
	return "u" + strings.TrimLeft(string(uid)[strings.LastIndexByte(string(uid), '-')+1:], "0u")
}

func (t *Thing) version() object.Version { return object.Version(t.ResourceVersion) }

// same reports whether both are the same state of the same object.
func (t *Thing) same(o *Thing) bool {
	return t.Namespace == o.Namespace && t.Name == o.Name && t.UID == o.UID &&
		t.ResourceVersion == o.ResourceVersion && t.Generation == o.Generation &&
		t.Spec == o.Spec && t.Status == o.Status && t.History == o.History && maps.Equal(t.Labels, o.Labels)
}
