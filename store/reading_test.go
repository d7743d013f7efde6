package store

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/tarnproject/tarn/object"
)

// shape is what objects have in common that a store decodes as several types.
type shape interface{ key() object.Key }

type circle struct{ Namespace, Name, Colour string }

func (c *circle) key() object.Key { return object.Key{Namespace: c.Namespace, Name: c.Name} }

type label struct{ Namespace, Name string }

func (l *label) key() object.Key { return object.Key{Namespace: l.Namespace, Name: l.Name} }

func decodeAs[T any](raw []byte) shape {
	obj := new(T)
	if json.Unmarshal(raw, obj) != nil {
		return nil
	}
	return any(obj).(shape)
}

// shapes returns a compact store of circles.
func shapes(t *testing.T, indexes ...AnyIndex[shape]) *Store[shape] {
	t.Helper()
	form := Packed(func(s shape) ([]byte, error) { return json.Marshal(s) }, func(raw []byte) (shape, error) { return decodeAs[circle](raw), nil })
	s, err := New(object.Keyed(shape.key), Options[shape]{Form: form, Indexes: indexes})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []circle{{"shop", "web", "red"}, {"shop", "db", "blue"}, {"lab", "web", "red"}} {
		if err := s.Set(&c); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var shopWeb = object.Key{Namespace: "shop", Name: "web"}

func get[T shape](t *testing.T, s *Store[shape], r *Reading[shape]) (obj T) {
	t.Helper()
	s.View(func(snap Snapshot[shape]) {
		found, _ := snap.With(r).Get(shopWeb)
		var ok bool
		if obj, ok = found.(T); !ok {
			t.Fatalf("read a %T", found)
		}
	})
	return obj
}

func TestReadersOfOneStoreMayDecodeDifferentTypes(t *testing.T) {
	s := shapes(t)
	labels := NewReading(decodeAs[label])
	if got := get[*label](t, s, labels); *got != (label{"shop", "web"}) {
		t.Errorf("read %+v", got)
	}
	if got := get[*circle](t, s, nil); got.Colour != "red" {
		t.Errorf("read %+v", got)
	}
	for name, read := range map[string]func(Snapshot[shape]) func(func(shape) bool){
		"All":       func(n Snapshot[shape]) func(func(shape) bool) { return n.All() },
		"Namespace": func(n Snapshot[shape]) func(func(shape) bool) { return n.Namespace("shop") },
		"Sorted":    func(n Snapshot[shape]) func(func(shape) bool) { return n.Sorted() },
		"Chunk": func(n Snapshot[shape]) func(func(shape) bool) {
			return func(yield func(shape) bool) {
				for _, obj := range n.Chunk(0, nil) {
					yield(obj)
				}
			}
		},
	} {
		s.View(func(snap Snapshot[shape]) {
			n := 0
			for obj := range read(snap.With(labels)) {
				if _, ok := obj.(*label); !ok {
					t.Errorf("%s yields a %T", name, obj)
				}
				n++
			}
			if n < 2 {
				t.Errorf("%s yields %d objects", name, n)
			}
		})
	}
}

// O05, C02
func TestAnOwnedReadingSharesNothing(t *testing.T) {
	s := shapes(t)
	owned := NewReading(decodeAs[circle]).Owned()
	a, b, shared := get[*circle](t, s, owned), get[*circle](t, s, owned), get[*circle](t, s, nil)
	a.Colour = "green"
	if b.Colour != "red" || shared.Colour != "red" {
		t.Error("a reader changed what another one owns")
	}
}

func TestAKeptReadingDecodesOncePerVersion(t *testing.T) {
	s := shapes(t)
	for _, r := range []*Reading[shape]{NewReading(decodeAs[circle]), NewReading[shape](nil)} {
		get[*circle](t, s, r.Kept()).Colour = "green" // to recognise it
		for range 3 {
			runtime.GC()
		}
		if got := get[*circle](t, s, r.Kept()); got.Colour != "green" {
			t.Error("it was decoded again")
		}
		if got := get[*circle](t, s, r); got.Colour != "green" {
			t.Error("the readers of the same decoder do not share it")
		}
	}
	if got := get[*circle](t, s, NewReading(decodeAs[circle])); got.Colour != "red" {
		t.Error("another decoder shares it")
	}
	if err := s.Set(&circle{"shop", "web", "blue"}); err != nil {
		t.Fatal(err)
	}
	if got := get[*circle](t, s, NewReading[shape](nil).Kept()); got.Colour != "blue" {
		t.Errorf("read %s, which is of an earlier version", got.Colour)
	}
}

func TestAnIndexFunctionIsGivenWhatItsReadingDecodes(t *testing.T) {
	byName := NewIndex("name", func(s shape) string { return s.(*label).Name }).By(NewReading(decodeAs[label]).Owned())
	s := shapes(t, byName)
	later := NewIndex("later", func(s shape) string { return s.(*label).Name }).By(NewReading(decodeAs[label]).Owned())
	s.AddIndex(later)
	s.View(func(snap Snapshot[shape]) {
		for _, x := range []*Index[shape, string]{byName, later} {
			n := 0
			for obj := range x.Get(snap, "web") {
				if _, ok := obj.(*circle); !ok {
					t.Errorf("index %s yields a %T", x.Name(), obj)
				}
				n++
			}
			if n != 2 {
				t.Errorf("index %s yields %d objects", x.Name(), n)
			}
		}
	})
}

func TestAnObjectThatIsNotOfTheTypeIsReadAsNone(t *testing.T) {
	s := shapes(t)
	s.View(func(snap Snapshot[shape]) {
		if obj, ok := snap.With(NewReading(func([]byte) shape { return nil })).Get(shopWeb); obj != nil || !ok {
			t.Errorf("read %v, %v", obj, ok)
		}
	})
}

func TestACompactFormNeedsPointers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Packed(func(int) ([]byte, error) { return nil, nil }, func([]byte) (int, error) { return 0, nil })
}
