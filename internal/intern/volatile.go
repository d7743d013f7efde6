package intern

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Volatile reports whether the memory of a value of type t may be written to by reading
// it: t is, or has as a field or an element of an array, a struct that hides fields of its
// own, as resource.Quantity does, in which String and AsDec keep their result. What a
// decoder shares between objects must not have such a value that a reader can get the
// address of (O02): behind a pointer or in a slice. The values of a map have none, and
// every reader gets a copy.
//
// Structs of exported fields, which all other types of the API are, count as plain data.
// So does time.Time, whose methods write to copies only.
func Volatile(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return Volatile(t.Elem())
	case reflect.Struct:
		if t == timeType {
			return false
		}
		for i := range t.NumField() {
			if f := t.Field(i); !f.IsExported() || Volatile(f.Type) {
				return true
			}
		}
	}
	return false
}

// Reaches reports whether a value of type t is [Volatile] or may lead to one that a reader
// can get the address of. It is for types that decode themselves, of whose parts a decoder
// sees nothing.
func Reaches(t reflect.Type) bool { return reaches(t, true, map[place]bool{}) }

// place is a type, and whether its value has an address.
type place struct {
	t           reflect.Type
	addressable bool
}

func reaches(t reflect.Type, addressable bool, seen map[place]bool) bool {
	at := place{t, addressable}
	if seen[at] {
		return false
	}
	seen[at] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return reaches(t.Elem(), true, seen)
	case reflect.Array:
		return reaches(t.Elem(), addressable, seen)
	case reflect.Map:
		return reaches(t.Elem(), false, seen)
	case reflect.Struct:
		if t == timeType {
			return false
		}
		if addressable && Volatile(t) {
			return true
		}
		for i := range t.NumField() {
			if reaches(t.Field(i).Type, addressable, seen) {
				return true
			}
		}
	}
	return false
}

var (
	timeType = reflect.TypeFor[time.Time]()
	decimal  = func() []int { // of a quantity: where the pointer to its decimal is
		f, _ := reflect.TypeFor[resource.Quantity]().FieldByName("d")
		return append(f.Index, 0)
	}()
)

// HasDecimal reports whether a quantity is too long or too precise for its int64 and points
// to a decimal. Copies have that in common, and Add and Sub write to it, so it is volatile
// in a map too.
func HasDecimal(q *resource.Quantity) bool {
	return !reflect.ValueOf(q).Elem().FieldByIndex(decimal).IsNil()
}
