package object

import (
	"fmt"
	"strings"
)

// FieldPath leads from an object to one of its fields, by the names that the field
// has in JSON: {"metadata", "managedFields"}. A step into a map is its key. A step
// into a list goes to each of its elements and has no name of its own: the path
// {"spec", "containers", "env"} leads to the env of every container.
type FieldPath []string

// Fields that most readers do without.
var (
	// ManagedFields is the record of who set which field.
	ManagedFields = FieldPath{"metadata", "managedFields"}
	// LastApplied is the annotation in which kubectl apply keeps a copy of the object.
	LastApplied = FieldPath{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}
)

// ParseFieldPath reads the text form: names joined by dots, a name with dots or
// brackets of its own in brackets, as in "metadata.annotations[example.com/note]".
// A list's elements may be written as "[*]" and are left out:
// "spec.containers[*].env" is "spec.containers.env".
func ParseFieldPath(s string) (FieldPath, error) {
	var p FieldPath
	rest := s
	for first := true; rest != ""; first = false {
		if rest[0] == '[' {
			name, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, fmt.Errorf("object: field path %q: a bracket is not closed", s)
			}
			if name == "" {
				return nil, fmt.Errorf("object: field path %q: nothing between brackets", s)
			}
			if name != "*" {
				p = append(p, name)
			}
			rest = after
			continue
		}
		if !first {
			if rest[0] != '.' {
				return nil, fmt.Errorf("object: field path %q: want a dot or a bracket before %q", s, rest)
			}
			rest = rest[1:]
		}
		if rest == "" {
			return nil, fmt.Errorf("object: field path %q ends with a dot", s)
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("object: field path %q has an empty name", s)
		}
		p = append(p, rest[:end])
		rest = rest[end:]
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("object: field path %q names no field", s)
	}
	return p, nil
}

// String returns the text form, which [ParseFieldPath] reads back, as long as no
// name contains a closing bracket.
func (p FieldPath) String() string {
	var b strings.Builder
	for i, name := range p {
		switch {
		case strings.ContainsAny(name, ".[") || name == "":
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}
