package store

import (
	"strings"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// keep returns a key like k, which belongs to what is held at p and is part of something
// large, that may be kept: usually that of the object.
func (s *Store[T]) keep(k object.Key, p mvcc.Value) object.Key {
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
