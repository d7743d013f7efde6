package jsondec

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

// hollow calls f once for each type of list and map that a type leads to and whose elements are large,
// with the JSON before its elements, that of an element, and that after them.
func hollow(t reflect.Type, before, after string, seen map[reflect.Type]bool, f func(before, element, after string)) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		hollow(t.Elem(), before, after, seen, f)
	case reflect.Slice:
		if t.Elem().Size() >= 64 {
			f(before+"[", `{},`, `{}]`+after)
		}
		hollow(t.Elem(), before+"[", "]"+after, seen, f)
	case reflect.Map:
		f(before+"{", `"":null,`, `"a":null}`+after)
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				hollow(t.Field(i).Type, before+`{"`+name+`":`, "}"+after, seen, f)
			}
		}
	}
}

func TestEmptyPartsTakeBoundedMemory(t *testing.T) {
	soak.Measures(t)
	const size = 512 << 10
	refused := 0
	check := func(m *machine, raw []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := m.decode(raw)
		runtime.ReadMemStats(&after)
		if errors.Is(err, intern.ErrRoom) {
			refused++
		}
		// And the tokens, 16 bytes for each value, which grow by doubling.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(intern.Room(len(raw))+48*len(raw)); got > most {
			t.Errorf("%v, %.60s…: %d MiB for %d KiB, want at most %d (%v)", m.elem, raw, got>>20, len(raw)>>10, most>>20, err)
		}
	}
	m, err := newMachine(reflect.TypeFor[*corev1.Pod](), Options{})
	if err != nil {
		t.Fatal(err)
	}
	hollow(m.elem, "", "", map[reflect.Type]bool{}, func(before, element, after string) {
		raw := before + strings.Repeat(element, size/len(element)) + after
		check(m, []byte(raw))
		// A field that comes twice takes the slow path.
		check(m, []byte(`{"kind":"a","kind":"b",`+raw[1:]))
	})
	if refused == 0 {
		t.Error("no object was refused")
	}
}

// An object of real size has room, whatever it consists of.
func TestFullPartsHaveRoom(t *testing.T) {
	m, err := newMachine(reflect.TypeFor[*corev1.Pod](), Options{})
	if err != nil {
		t.Fatal(err)
	}
	container := `{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}},"ports":[{"containerPort":80}],"env":[{"name":"a","value":"b"}]},`
	raw := `{"spec":{"containers":[` + strings.Repeat(container, 1_500_000/len(container)) + container[:len(container)-1] + `]}}`
	if _, err := m.decode([]byte(raw)); err != nil {
		t.Error(err)
	}
}
