// Package decodertest holds what the tests of the JSON and the protobuf decoder have in
// common: the built-in kinds, and random objects of them.
package decodertest

import (
	"cmp"
	"math/rand"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

// Kinds returns the types of all built-in kinds and of object metadata, sorted by name.
func Kinds() []reflect.Type {
	seen := map[reflect.Type]bool{reflect.TypeFor[metav1.PartialObjectMetadata](): true}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != "__internal" {
			seen[t] = true
		}
	}
	all := make([]reflect.Type, 0, len(seen))
	for t := range seen {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b reflect.Type) int {
		return cmp.Or(cmp.Compare(a.PkgPath(), b.PkgPath()), cmp.Compare(a.Name(), b.Name()))
	})
	return all
}

// Filler fills objects with random values that their encoders accept.
func Filler(seed int64) *randfill.Filler {
	return fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs)
}
