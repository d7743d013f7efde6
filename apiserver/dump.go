package apiserver

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

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
// creation times and managed fields are left out, and null fields too. Other times are shown
// as "<time>", UIDs of objects by the object, as in "<uid of Pod default/web>", and generated
// names as in "web-<generated>".
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
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			delete(m, field)
		}
	}
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
			if field == nil {
				delete(v, name)
			} else {
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

// lineDiff marks the lines that differ.
func lineDiff(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			fmt.Fprintf(&out, "  %s\n", a[i])
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			fmt.Fprintf(&out, "- %s\n", a[i])
			i++
		default:
			fmt.Fprintf(&out, "+ %s\n", b[j])
			j++
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}
