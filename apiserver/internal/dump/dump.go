package dump

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Object is an object of a server.
type Object struct {
	Kind   *kinds.Kind
	Record *kinds.Record
}

// dumped is an object with its text.
type dumped struct {
	Object
	key  object.Key // with replaced names
	text string
}

// Write writes the objects that are wanted, sorted. deleted are the last states of others, whose names may remain in
// them, and hidden is an annotation that is left out.
func Write(out *bytes.Buffer, all []Object, deleted []*kinds.Record, hidden string, wanted func(Object) bool) {
	n := newNormalizer(all, deleted, hidden)
	var texts []dumped
	for _, o := range all {
		if wanted(o) {
			texts = append(texts, dumped{o, n.key(o.Record.Key), n.text(o)})
		}
	}
	slices.SortStableFunc(texts, func(a, b dumped) int {
		return cmp.Or(strings.Compare(a.Kind.String(), b.Kind.String()), strings.Compare(a.key.Namespace, b.key.Namespace),
			strings.Compare(a.key.Name, b.key.Name), strings.Compare(a.text, b.text))
	})
	for i, d := range texts {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.WriteString(d.text)
	}
}

// normalizer replaces what differs from run to run.
type normalizer struct {
	hidden string // an annotation
	// known has the replacements of generated names, hashes, UIDs and addresses, also within
	// strings. Names are not kept by namespace, because references and copies cross namespaces.
	known   map[string]string
	lengths []int // of the strings in known, the longest first
	// scheduled has the pods with the condition PodScheduled, and whether any node could have
	// been chosen.
	scheduled map[object.Key]bool
	// generation is that of the object.
	generation int64
}

var (
	uuid      = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	eventName = regexp.MustCompile(`^(.+)\.[0-9a-f]{12,}$`) // of client-go's recorders and Tarn's
	timestamp = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
)

// newNormalizer returns a normalizer for all objects of a server. Names of deleted ones may
// remain in others. An annotation is hidden.
func newNormalizer(all []Object, deleted []*kinds.Record, hidden string) *normalizer {
	n := &normalizer{hidden: hidden, known: map[string]string{}, scheduled: map[object.Key]bool{}}
	var generated []*kinds.Record
	records := deleted
	for _, d := range all {
		records = append(records, d.Record)
	}
	for _, rec := range records {
		for _, label := range []string{appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey} {
			// The label of a StatefulSet's pods is the name of the revision.
			if hash := rec.Meta.GetLabels()[label]; hash != "" && strings.HasSuffix(rec.Key.Name, "-"+hash) {
				n.add(hash, "<hash>")
			}
		}
		if base := kinds.GeneratedBase(rec.Meta.GetGenerateName()); base != "" && strings.HasPrefix(rec.Key.Name, base) {
			generated = append(generated, rec)
		}
	}
	// The prefix of a generated name may have another one, which is shorter.
	slices.SortStableFunc(generated, func(a, b *kinds.Record) int { return cmp.Compare(len(a.Key.Name), len(b.Key.Name)) })
	for _, rec := range generated {
		n.add(rec.Key.Name, n.replace(kinds.GeneratedBase(rec.Meta.GetGenerateName()))+"<generated>")
	}
	for _, rec := range records {
		if parts := eventName.FindStringSubmatch(rec.Key.Name); parts != nil && isEvent(rec) {
			n.add(rec.Key.Name, n.replace(parts[1])+".<generated>")
		}
	}
	for _, d := range all {
		n.add(string(d.Record.Meta.GetUID()), fmt.Sprintf("<uid of %s %s>", d.Kind.Kind, n.key(d.Record.Key)))
		if pod, ok := d.Record.Obj.(*corev1.Pod); ok && scheduled(pod) {
			n.scheduled[d.Record.Key] = anyNode(pod)
			if !pod.Spec.HostNetwork {
				n.add(pod.Status.PodIP, n.address(d.Record.Key))
			}
		}
	}
	return n
}

func isEvent(rec *kinds.Record) bool {
	_, is := rec.Obj.(*corev1.Event) // also those of events.k8s.io
	return is
}

func scheduled(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
}

// anyNode reports whether the default scheduler may have chosen the node of a pod.
func anyNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return (pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName) && (owner == nil || owner.Kind != "DaemonSet")
}

func (n *normalizer) add(text, replacement string) {
	if text == "" {
		return
	}
	n.known[text] = replacement
	if at, ok := slices.BinarySearchFunc(n.lengths, len(text), func(a, b int) int { return b - a }); !ok {
		n.lengths = slices.Insert(n.lengths, at, len(text))
	}
}

func (n *normalizer) key(k object.Key) object.Key {
	return object.Key{Namespace: n.replace(k.Namespace), Name: n.replace(k.Name)}
}

func (n *normalizer) address(pod object.Key) string { return fmt.Sprintf("<ip of Pod %s>", n.key(pod)) }

func (n *normalizer) text(d Object) string {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.Kind.Present(d.Record))
	if err != nil {
		return fmt.Sprintf("# %s %s: %v\n", d.Kind.Kind, d.Record.Key, err) // it was stored, so it can be converted
	}
	tree = runtime.DeepCopyJSON(tree)
	if m, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
			delete(m, field)
		}
		if annotations, ok := m["annotations"].(map[string]any); ok && annotations[n.hidden] != nil {
			if delete(annotations, n.hidden); len(annotations) == 0 {
				delete(m, "annotations")
			}
		}
	}
	if pod, ok := d.Record.Obj.(*corev1.Pod); ok && n.scheduled[d.Record.Key] {
		spec, status := tree["spec"].(map[string]any), tree["status"].(map[string]any)
		mask(spec, "nodeName", "<node>")
		mask(status, "hostIP", "<ip of the node>")
		mask(status, "hostIPs", "<ip of the node>")
		if pod.Spec.HostNetwork {
			mask(status, "podIP", n.address(d.Record.Key))
			mask(status, "podIPs", n.address(d.Record.Key))
		}
	}
	if isEvent(d.Record) {
		mask(tree, "reportingInstance", "<instance>")
		for _, name := range []string{"source", "involvedObject", "related"} {
			if field, ok := tree[name].(map[string]any); ok {
				delete(field, "host")
				delete(field, "resourceVersion")
			}
		}
	}
	n.generation = d.Record.Meta.GetGeneration()
	text, err := yaml.Marshal(n.normalize(tree))
	if err != nil {
		return fmt.Sprintf("# %s %s: %v\n", d.Kind.Kind, d.Record.Key, err)
	}
	return string(text)
}

// mask replaces the text of a field, if the field exists, and all texts in it.
func mask(m map[string]any, field, text string) {
	switch v := m[field].(type) {
	case string:
		m[field] = text
	case []any:
		for i := range v {
			if object, ok := v[i].(map[string]any); ok {
				mask(object, "ip", text)
			} else {
				v[i] = text
			}
		}
	}
}

func (n *normalizer) normalize(v any) any {
	switch v := v.(type) {
	case map[string]any:
		n.maskEndpoint(v)
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
		return n.renamed(v)
	case []any:
		for i := range v {
			v[i] = n.normalize(v[i])
		}
	case string:
		return n.replace(v)
	}
	return v
}

// maskEndpoint replaces the node and the address of an endpoint, if it is a pod on any node.
func (n *normalizer) maskEndpoint(v map[string]any) {
	ref, _ := v["targetRef"].(map[string]any)
	namespace, _ := ref["namespace"].(string)
	name, _ := ref["name"].(string)
	if key := (object.Key{Namespace: namespace, Name: name}); ref["kind"] == "Pod" && n.scheduled[key] {
		mask(v, "nodeName", "<node>")
		mask(v, "ip", n.address(key))
		mask(v, "addresses", n.address(key))
	}
}

// renamed returns a map with the replaced names of its fields. Names that become equal get a
// number, in the order of their values.
func (n *normalizer) renamed(m map[string]any) map[string]any {
	byName := map[string][]any{}
	changed := false
	for name, value := range m {
		replaced := n.replace(name)
		byName[replaced] = append(byName[replaced], value)
		changed = changed || replaced != name
	}
	if !changed {
		return m
	}
	out := make(map[string]any, len(m))
	for name, values := range byName {
		slices.SortFunc(values, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for i, value := range values {
			if i == 0 {
				out[name] = value
			} else {
				out[fmt.Sprintf("%s (%d)", name, i+1)] = value
			}
		}
	}
	return out
}

// replace replaces what is known, other UIDs and times in a string. A match begins and ends at
// a character that is neither a letter nor a digit; the longest one wins.
func (n *normalizer) replace(text string) string {
	var out strings.Builder
	done := 0
	for from := 0; from < len(text); {
		if !boundary(text, from) {
			from++
			continue
		}
		next := from + 1
		for _, length := range n.lengths {
			to := from + length
			if to > len(text) || !boundary(text, to) {
				continue
			}
			if replacement, ok := n.known[text[from:to]]; ok {
				out.WriteString(other(text[done:from]))
				out.WriteString(replacement)
				done, next = to, to
				break
			}
		}
		from = next
	}
	if done == 0 {
		return other(text)
	}
	return out.String() + other(text[done:])
}

// other replaces times, and UIDs of objects that no longer exist.
func other(text string) string {
	if !strings.Contains(text, "-") {
		return text
	}
	return timestamp.ReplaceAllString(uuid.ReplaceAllString(text, "<uid>"), "<time>")
}

// boundary reports whether a name may begin or end at an index of a text.
func boundary(text string, i int) bool {
	return i == 0 || i == len(text) || !alphanumeric(text[i-1]) || !alphanumeric(text[i])
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Diff returns the lines that differ, with some lines around them.
func Diff(before, after string) string {
	diff := difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(after), Context: 10}
	text, err := difflib.GetUnifiedDiffString(diff)
	if err != nil {
		return err.Error() // writing to a string does not fail
	}
	return strings.TrimSuffix(text, "\n")
}
