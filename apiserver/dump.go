package apiserver

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// dumped is an object of a dump.
type dumped struct {
	kind *kind
	rec  *record
	text string
}

// Dump returns the objects of some resources, such as "pods" or "deployments.apps", as YAML
// for comparison with a golden file or another dump. Without resources it returns all
// objects that were written since [New], except events and leases.
//
// The same test always yields the same text: objects are sorted, resource versions, UIDs,
// generations, creation times and managed fields are left out, and null fields too. Other
// times are shown as "<time>", UIDs of objects by the object, as in "<uid of Pod default/web>",
// generated names as in "web-<generated>", and an observedGeneration as "<generation>" or, if
// the status is of an earlier one, as "<not the generation>".
func (s *Server) Dump(resources ...string) []byte {
	var all []dumped
	for _, k := range s.catalog.storageKinds() {
		for _, rec := range s.storage.all(k, "") {
			all = append(all, dumped{kind: k, rec: rec})
		}
	}
	n := newNormalizer(all)
	all = slices.DeleteFunc(all, func(d dumped) bool {
		if len(resources) > 0 {
			return !slices.ContainsFunc(resources, func(name string) bool { return named(name)(d.kind) })
		}
		return d.rec.version <= s.firstChange || d.kind.isLease() || d.kind.Kind == "Event"
	})
	for i := range all {
		all[i].text = n.text(all[i])
	}
	slices.SortStableFunc(all, func(a, b dumped) int {
		return cmp.Or(strings.Compare(a.kind.String(), b.kind.String()), strings.Compare(a.rec.key.Namespace, b.rec.key.Namespace),
			strings.Compare(n.name(a.rec), n.name(b.rec)), strings.Compare(a.text, b.text))
	})
	var out bytes.Buffer
	for i, d := range all {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.WriteString(d.text)
	}
	return out.Bytes()
}

// normalizer replaces what differs from run to run.
type normalizer struct {
	names map[string]string // generated names
	uids  map[string]string
	// generation is that of the object.
	generation int64
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func newNormalizer(all []dumped) normalizer {
	n := normalizer{names: map[string]string{}, uids: map[string]string{}}
	for _, d := range all {
		if base := d.rec.meta.GetGenerateName(); base != "" && strings.HasPrefix(d.rec.key.Name, base) {
			n.names[d.rec.key.Name] = base + "<generated>"
		}
	}
	for _, d := range all {
		key := d.rec.key
		key.Name = n.name(d.rec)
		n.uids[string(d.rec.meta.GetUID())] = fmt.Sprintf("<uid of %s %s>", d.kind.Kind, key)
	}
	return n
}

func (n normalizer) name(rec *record) string { return cmp.Or(n.names[rec.key.Name], rec.key.Name) }

func (n normalizer) text(d dumped) string {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.rec.obj)
	if err != nil {
		return fmt.Sprintf("# %s %s: %v\n", d.kind.Kind, d.rec.key, err) // it was stored, so it can be converted
	}
	tree = runtime.DeepCopyJSON(tree)
	if m, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
			delete(m, field)
		}
	}
	n.generation = d.rec.meta.GetGeneration()
	text, err := yaml.Marshal(n.normalize(tree))
	if err != nil {
		return fmt.Sprintf("# %s %s: %v\n", d.kind.Kind, d.rec.key, err)
	}
	return string(text)
}

func (n normalizer) normalize(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			switch observed, number := field.(int64); {
			case field == nil:
				delete(v, name)
			case name == "observedGeneration" && number && observed == n.generation:
				v[name] = "<generation>"
			case name == "observedGeneration" && number:
				v[name] = "<not the generation>"
			default:
				v[name] = n.normalize(field)
			}
		}
	case []any:
		for i := range v {
			v[i] = n.normalize(v[i])
		}
	case string:
		if name, ok := n.names[v]; ok {
			return name
		}
		if uid, ok := n.uids[v]; ok {
			return uid
		}
		if uuid.MatchString(v) {
			return "<uid>"
		}
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "<time>"
		}
	}
	return v
}

// lineDiff returns the lines that differ, with some lines around them.
func lineDiff(before, after string) string {
	diff := difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(after), Context: 10}
	text, err := difflib.GetUnifiedDiffString(diff)
	if err != nil {
		return err.Error() // writing to a string does not fail
	}
	return strings.TrimSuffix(text, "\n")
}
