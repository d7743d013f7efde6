package intern

import (
	"errors"
	"reflect"
)

// ErrRoom is the error for an object that would need more memory than [Room] grants it.
var ErrRoom = errors.New("the object would take far more memory than its encoded form: it has very many empty parts")

// Room returns how many bytes of structs an encoded object of n bytes may be decoded to. An empty
// element of a list takes two or three bytes encoded, and hundreds decoded. Objects with data in them
// stay far below.
func Room(n int) int {
	const factor, least, most = 64, 16 << 20, 256 << 20
	return min(max(n, least/factor), most/factor) * factor
}

// Widest returns the size of the largest value that a value of type t leads to: an element of a
// slice or a map, or what a pointer points to. It is for types that decode themselves, of whose
// parts a decoder sees nothing.
func Widest(t reflect.Type) int { return widest(t, map[reflect.Type]bool{}) }

func widest(t reflect.Type, seen map[reflect.Type]bool) (size int) {
	if seen[t] {
		return 0
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return max(int(t.Elem().Size()), widest(t.Elem(), seen))
	case reflect.Array:
		return widest(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			size = max(size, widest(t.Field(i).Type, seen))
		}
	}
	return size
}
