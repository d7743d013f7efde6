package store

import (
	"strings"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// keep returns a copy of k, the key of what is held at p, that does not keep a block of records
// alive. Usually it is the object's own key, which costs nothing.
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
