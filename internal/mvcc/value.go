package mvcc

import (
	"sync/atomic"
	"unsafe"
)

// This is the only file of the package that uses unsafe, for two things: values without a
// type, and names that are read from a record without a copy.

// Value is what a [Map] stores under a key: a pointer whose type only the map's user knows.
// Nil means that the key does not exist. A map with a type parameter instead would need an
// object of its own around each value, and a cache miss to read it.
type Value = unsafe.Pointer

func loadValue(at *Value) Value       { return atomic.LoadPointer(at) }
func storeValue(at *Value, now Value) { atomic.StorePointer(at, now) }

// view returns the first n bytes of a name as a string that shares its memory. The bytes must
// not change while the string is in use; see [block].
func view(text *[maxName]byte, n uint8) string { return unsafe.String(&text[0], n) }
