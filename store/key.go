package store

import (
	"strings"
	"unsafe"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// keySorting is the order of keys. Its units are the bytes of the namespace, its end, and
// the bytes of the name.
func keySorting() mvcc.Sorting[object.Key] {
	var last string
	// own returns a namespace to keep. Keys come in order: mostly it is the last one again.
	own := func(namespace string) string {
		if namespace != last {
			last = strings.Clone(namespace)
		}
		return last
	}
	return mvcc.Sorting[object.Key]{
		Compare: object.Key.Compare,
		Common: func(a, b object.Key) int {
			if a.Namespace != b.Namespace {
				return common(a.Namespace, b.Namespace)
			}
			return len(a.Namespace) + 1 + common(a.Name, b.Name)
		},
		Digest: func(k object.Key, skip int) uint32 {
			// Keys of different namespaces have at most the shorter namespace in common,
			// so that a digest never runs from the namespace into the name.
			if skip > len(k.Namespace) {
				return digest(k.Name[skip-len(k.Namespace)-1:])
			}
			return digest(k.Namespace[skip:])
		},
		First: func(k object.Key, n int) object.Key {
			if n <= len(k.Namespace) {
				return object.Key{Namespace: own(k.Namespace[:n])}
			}
			return object.Key{Namespace: own(k.Namespace), Name: strings.Clone(k.Name[:n-len(k.Namespace)-1])}
		},
		Between: func(a, b object.Key) object.Key {
			if a.Namespace != b.Namespace {
				return object.Key{Namespace: strings.Clone(b.Namespace[:common(a.Namespace, b.Namespace)+1])}
			}
			return object.Key{Namespace: own(b.Namespace), Name: strings.Clone(b.Name[:common(a.Name, b.Name)+1])}
		},
	}
}

// keep returns a key like k, which belongs to what is held at p and is part of something
// large, that may be kept: usually that of the object.
func (s *Store[T]) keep(k object.Key, p unsafe.Pointer) object.Key {
	if s.direct {
		if own, err := s.acc.Key(fromPointer[T](p)); err == nil && own == k {
			return own
		}
	}
	return cloneKey(k)
}

func cloneKey(k object.Key) object.Key {
	return object.Key{Namespace: strings.Clone(k.Namespace), Name: strings.Clone(k.Name)}
}

// common returns the number of bytes that two strings share at their beginning.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// digest returns the first four bytes as a number that sorts as they do.
func digest(s string) uint32 {
	if len(s) >= 4 {
		return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
	}
	var d uint32
	for i := range len(s) {
		d |= uint32(s[i]) << (24 - 8*i)
	}
	return d
}
