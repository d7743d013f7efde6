package object

import (
	"errors"
	"fmt"
	"strings"
)

// Key names an object within one resource. Namespace is empty for a
// cluster-scoped object. Keys are comparable and ordered: by namespace, then by
// name, so that the keys of one namespace form a range.
type Key struct {
	Namespace string
	Name      string
}

// ErrKey is wrapped by every error of [Parse].
var ErrKey = errors.New("object: not a key")

// Parse parses the strict form of a key: "namespace/name", or "name" for a
// cluster-scoped object. It rejects empty parts and further slashes; use
// [RawKey] for other forms.
func Parse(s string) (Key, error) {
	namespace, name, slash := strings.Cut(s, "/")
	switch {
	case s == "":
		return Key{}, fmt.Errorf("%w: empty string; want \"namespace/name\" or \"name\"", ErrKey)
	case !slash:
		return Key{Name: s}, nil
	case namespace == "":
		return Key{}, fmt.Errorf("%w: %q has an empty namespace; write just the name for a cluster-scoped object", ErrKey, s)
	case name == "":
		return Key{}, fmt.Errorf("%w: %q has an empty name after the slash", ErrKey, s)
	case strings.Contains(name, "/"):
		return Key{}, fmt.Errorf("%w: %q has more than one slash; want \"namespace/name\"", ErrKey, s)
	}
	return Key{Namespace: namespace, Name: name}, nil
}

// RawKey turns any string into a key, one to one: RawKey(s).String() == s for
// every s. It represents keys of custom key functions, for which client-go allows any
// string. If [Parse] accepts the string, both return the same key.
func RawKey(s string) Key {
	if i := strings.IndexByte(s, '/'); i > 0 {
		return Key{Namespace: s[:i], Name: s[i+1:]}
	}
	return Key{Name: s}
}

// String returns "namespace/name", or just the name without a namespace.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare returns -1, 0 or +1 as k sorts before, is equal to, or sorts after other.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// IsZero reports whether k is the zero key, which names nothing.
func (k Key) IsZero() bool { return k == Key{} }
