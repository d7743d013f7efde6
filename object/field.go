package object

import "strings"

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

// String returns the names joined by dots, in brackets where a name contains dots or brackets:
// "metadata.annotations[example.com/note]".
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
