package object

import (
	"fmt"
	"strings"
)

// FieldPath names a field of an object by its JSON names: {"metadata", "managedFields"}. For
// a map the name is the key. Lists have no name in the path, which continues in each of
// their elements: {"spec", "containers", "env"} is the env of every container.
type FieldPath []string

// Fields that most programs do not need.
var (
	// ManagedFields records which field manager owns which field.
	ManagedFields = FieldPath{"metadata", "managedFields"}
	// LastApplied is the annotation in which kubectl apply keeps a copy of the object.
	LastApplied = FieldPath{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}
)

// ParseFieldPath parses the text form: names joined by dots. A name that contains dots or
// brackets is in brackets, as in "metadata.annotations[example.com/note]". "[*]" for the
// elements of a list is optional: "spec.containers[*].env" is "spec.containers.env".
func ParseFieldPath(s string) (FieldPath, error) {
	var p FieldPath
	rest := s
	for first := true; rest != ""; first = false {
		if rest[0] == '[' {
			name, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, fmt.Errorf("object: field path %q: missing closing bracket", s)
			}
			if name == "" {
				return nil, fmt.Errorf("object: field path %q: empty brackets", s)
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

// String returns the text form. [ParseFieldPath] parses it, unless a name contains a closing
// bracket.
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
