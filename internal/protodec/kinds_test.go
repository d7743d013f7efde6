package protodec

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generated is what every type with generated code has.
type generated interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// kinds returns all built-in types that have generated code.
func kinds() []reflect.Type {
	return slices.DeleteFunc(decodertest.Kinds(), func(t reflect.Type) bool {
		return !reflect.PointerTo(t).Implements(reflect.TypeFor[generated]())
	})
}

// sample returns the encoding of a random object of type t.
func sample(t reflect.Type, fill *randfill.Filler) ([]byte, error) {
	obj := reflect.New(t).Interface().(generated)
	fill.Fill(obj)
	return obj.Marshal()
}

// byGenerated decodes with the generated code. It counts a panic as refusal: the code
// of resource.Quantity does so on some lengths.
func byGenerated(t reflect.Type, raw []byte) (obj any, err error) {
	defer func() {
		if r := recover(); r != nil {
			obj, err = nil, fmt.Errorf("panic: %v", r)
		}
	}()
	v := reflect.New(t)
	return v.Interface(), v.Interface().(generated).Unmarshal(raw)
}

// lineup is the same type decoded in all ways that must not make a difference.
type lineup struct {
	typ  reflect.Type
	ways map[string]*engine
}

func newLineup(tb testing.TB, t reflect.Type) *lineup {
	tb.Helper()
	l := &lineup{typ: t, ways: map[string]*engine{}}
	for name, opts := range map[string]Options{
		"plain":    {},
		"interned": {Strings: intern.NewStrings(256)},
		"shared":   {Share: intern.NewParts(1 << 20)},
		"both":     {Strings: intern.NewStrings(0), Share: intern.NewParts(0)},
		"cramped":  {Strings: intern.NewStrings(1), Share: intern.NewParts(20_000)},
	} {
		e, err := newEngine(t, opts)
		if err != nil {
			tb.Fatal(err)
		}
		l.ways[name] = e
	}
	return l
}

// check holds every way against the generated code, several times over: tables come to
// know what is in raw, and the last time it is tried before they are asked. It returns whether raw was accepted.
func (l *lineup) check(tb testing.TB, raw []byte) bool {
	tb.Helper()
	want, wantErr := byGenerated(l.typ, raw)
	if _, ok := l.ways["plain"].trim(raw, nil); ok && wantErr != nil {
		tb.Fatalf("%s is sound; the generated code says %v\n%x", l.typ, wantErr, raw)
	}
	for name, e := range l.ways {
		for round := range 4 {
			own := slices.Clone(raw)
			p, err := e.decode(own)
			for i := range own {
				own[i] = 0xA5 // whatever still points there shows
			}
			if (err == nil) != (wantErr == nil) {
				tb.Fatalf("%s, %s, round %d: error %v; the generated code says %v\n%x", l.typ, name, round, err, wantErr, raw)
			}
			if err != nil {
				continue
			}
			got := reflect.NewAt(l.typ, unsafe.Pointer(p)).Interface()
			if !reflect.DeepEqual(got, want) {
				tb.Fatalf("%s, %s, round %d:\n got %#v\nwant %#v\n%x", l.typ, name, round, got, want, raw)
			}
		}
	}
	return wantErr == nil
}

func TestEveryBuiltInKindIsSupported(t *testing.T) {
	all := kinds()
	if len(all) < 300 {
		t.Errorf("only %d kinds", len(all))
	}
	for _, typ := range all {
		if err := Supported(typ); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryBuiltInKindDecodesAsGenerated(t *testing.T) {
	rounds := soak.Rounds(2)
	fill := decodertest.Filler(1)
	for _, typ := range soak.Part(kinds()) {
		l := newLineup(t, typ)
		for range rounds {
			raw, err := sample(typ, fill)
			if err != nil {
				t.Fatal(err)
			}
			if !l.check(t, raw) {
				t.Fatalf("%s: the generated code refuses what it wrote", typ)
			}
		}
	}
}

func TestEveryBuiltInKindWithMetadataCanBePeekedAt(t *testing.T) {
	fill := decodertest.Filler(5)
	peeked := 0
	for _, typ := range kinds() {
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok {
			continue
		}
		for range 5 {
			raw, err := sample(typ, fill)
			if err != nil {
				t.Fatal(err)
			}
			obj, err := byGenerated(typ, raw)
			if err != nil {
				t.Fatal(err)
			}
			want := obj.(metav1.Object)
			id, err := Peek(raw)
			if err != nil || string(id.Namespace) != want.GetNamespace() || string(id.Name) != want.GetName() ||
				string(id.UID) != string(want.GetUID()) || string(id.ResourceVersion) != want.GetResourceVersion() {
				t.Fatalf("%s: %q, %v", typ, id, err)
			}
			peeked++
		}
	}
	if peeked < 500 {
		t.Errorf("only %d objects", peeked)
	}
}
