package protodec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// dropNode is a step on the way to fields that are to be dropped, or that alone are to be decoded.
// The nil node leads to none.
type dropNode struct {
	ends bool                 // a path ends here
	next map[string]*dropNode // by JSON name, or by the key of a map
}

func (n *dropNode) ended() bool { return n != nil && n.ends }

// mapKeys returns the keys to leave out of a map that n leads to.
func (n *dropNode) mapKeys() []string {
	if n == nil {
		return nil
	}
	var keys []string
	for key := range n.next {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// below returns the node for a field of a struct that n leads to.
func (n *dropNode) below(sf reflect.StructField) *dropNode {
	if n == nil {
		return nil
	}
	name, inline := jsonName(sf)
	if !inline {
		return n.next[name]
	}
	// The fields of an inlined struct are named as if they stood here.
	for name := range n.next {
		if _, found := fieldNamed(sf.Type, name); found {
			return &dropNode{next: n.next}
		}
	}
	return nil
}

// newDrops is newTree for paths that lead to fields of the type.
func newDrops(t reflect.Type, paths []object.FieldPath) (*dropNode, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	for _, path := range paths {
		if err := checkPath(t, path); err != nil {
			return nil, err
		}
	}
	return newTree(paths), nil
}

// newTree joins paths into a tree, which is nil if paths is.
func newTree(paths []object.FieldPath) *dropNode {
	if paths == nil {
		return nil
	}
	root := &dropNode{}
	for _, path := range paths {
		n := root
		for _, part := range path {
			if n.next == nil {
				n.next = map[string]*dropNode{}
			}
			if n.next[part] == nil {
				n.next[part] = &dropNode{}
			}
			n = n.next[part]
		}
		n.ends = true
	}
	return root
}

// checkPath returns an error that names the first part of path that leads nowhere.
func checkPath(t reflect.Type, path object.FieldPath) error {
	if len(path) == 0 {
		return errors.New("protodec: a field path to drop is empty")
	}
	inMap := false
	for _, part := range path {
		for !inMap && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
			t = t.Elem()
		}
		switch {
		case inMap:
			return fmt.Errorf("protodec: field path %q: %q is below an entry of a map, which can only be dropped whole", path, part)
		case t.Kind() == reflect.Map:
			inMap = true
		default:
			sf, found := fieldNamed(t, part)
			if !found {
				return fmt.Errorf("protodec: field path %q: %s has no field %q", path, t, part)
			}
			t = sf.Type
		}
	}
	return nil
}

// fieldNamed finds a field by its JSON name, in inlined structs too. Types with a JSON
// form of their own, such as times and quantities, have no fields.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(jsonDecoder) {
		return reflect.StructField{}, false
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		own, inline := jsonName(sf)
		if inline {
			if found, ok := fieldNamed(sf.Type, name); ok {
				return found, true
			}
		} else if own == name && own != "" {
			return sf, true
		}
	}
	return reflect.StructField{}, false
}

// jsonName returns the name that a field has in JSON, empty for none, or says that the
// fields of its type stand in its place.
func jsonName(sf reflect.StructField) (name string, inline bool) {
	name, _, _ = strings.Cut(sf.Tag.Get("json"), ",")
	switch {
	case name == "-":
		return "", false
	case name == "" && sf.Anonymous:
		return "", true
	case name == "" && strings.Contains(sf.Tag.Get("json"), ",inline"):
		return "", true
	case name == "":
		return sf.Name, false
	}
	return name, false
}
