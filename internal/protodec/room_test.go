package protodec

import (
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

// Empty messages take two bytes encoded, and hundreds decoded.
func TestEmptyPartsTakeBoundedMemory(t *testing.T) {
	soak.Measures(t)
	const size = 512 << 10
	times := func(part ...byte) []byte { return slices.Repeat(part, size/len(part)) }
	container, initContainer := bytesField(2), bytesField(20)
	for _, c := range []struct {
		name string
		typ  reflect.Type
		raw  []byte
	}{
		{"a run of elements", reflect.TypeFor[corev1.Pod](), bytesField(2, times(container...)...)},
		{"elements of two lists by turns", reflect.TypeFor[corev1.Pod](), bytesField(2, times(slices.Concat(container, initContainer)...)...)},
		{"elements with pointers", reflect.TypeFor[corev1.Pod](), bytesField(2, times(bytesField(2, bytesField(15)...)...)...)},
		{"values of a map", reflect.TypeFor[policyv1.PodDisruptionBudget](), bytesField(3, times(bytesField(2, bytesField(2)...)...)...)},
		{"values of one entry", reflect.TypeFor[policyv1.PodDisruptionBudget](), bytesField(3, bytesField(2, times(bytesField(2)...)...)...)},
	} {
		e, err := newEngine(c.typ, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = e.decode(c.raw)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(2*intern.Room(len(c.raw))); got > most {
			t.Errorf("%s: %d MiB for %d KiB, want at most %d (%v)", c.name, got>>20, len(c.raw)>>10, most>>20, err)
		}
		if strconv.IntSize == 64 && c.typ == reflect.TypeFor[corev1.Pod]() && !errors.Is(err, intern.ErrRoom) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
