// Package objectdiff compares two objects field by field.
package objectdiff

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Edit is one difference between two objects: a field that was added, removed or changed.
type Edit struct {
	Path     Path
	Old, New any // Absent for an added or removed field
}

// Absent stands for a missing value, as opposed to null.
type Absent struct{}

// Path leads to a value.
type Path []step

// step is one part of a path: a field, or a list element identified by key or index.
type step struct {
	field string // empty for an element
	key   string // such as "name"; empty for an index
	value string // value of the key, or the index
}

// String returns the step as appended to a path.
func (s step) String() string {
	switch {
	case s.field == "" && s.key == "":
		return "[" + s.value + "]"
	case s.field == "":
		return "[" + s.key + "=" + s.value + "]"
	case plainField(s.field):
		return "." + s.field
	}
	return "[" + strconv.Quote(s.field) + "]"
}

// plainField reports whether a field name needs no quoting in a path.
func plainField(name string) bool {
	if name == "" {
		return false
	}
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return true
}

// String returns the path as text, such as "spec.containers[name=web].image".
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.String())
	}
	return strings.TrimPrefix(b.String(), ".")
}

// Fields returns the field names on the path.
func (p Path) Fields() (names []string) {
	for _, s := range p {
		if s.field != "" {
			names = append(names, s.field)
		}
	}
	return names
}

// Diff returns the edits from old to new, ordered by field name. Added and removed values
// are listed leaf by leaf.
func Diff(old, new any) []Edit { return First(old, new, math.MaxInt) }

// First returns the first edits of [Diff], and stops when it has as many as most.
func First(old, new any, most int) []Edit {
	d := differ{most: most}
	d.compare(nil, old, new)
	return d.edits
}

type differ struct {
	edits []Edit
	most  int
}

// add adds an edit, unless there are enough.
func (d *differ) add(path []step, old, new any) {
	if len(d.edits) < d.most {
		d.edits = append(d.edits, Edit{path, old, new})
	}
}

func (d *differ) compare(path []step, old, new any) {
	if len(d.edits) >= d.most {
		return
	}
	if oldMap, newMap, ok := both[map[string]any](old, new); ok {
		d.maps(path, oldMap, newMap)
		return
	}
	if oldList, newList, ok := both[[]any](old, new); ok {
		d.lists(path, oldList, newList)
		return
	}
	if !reflect.DeepEqual(old, new) {
		d.add(slices.Clone(path), old, new)
	}
}

// both converts two values to a container type. A missing one is treated as empty, unless
// that would hide the difference.
func both[C map[string]any | []any](old, new any) (o, n C, ok bool) {
	o, isOld := old.(C)
	n, isNew := new.(C)
	switch {
	case isOld && isNew:
		return o, n, true
	case isOld && new == Absent{}:
		return o, n, reflect.ValueOf(o).Len() > 0
	case isNew && old == Absent{}:
		return o, n, reflect.ValueOf(n).Len() > 0
	}
	return o, n, false
}

func (d *differ) maps(path []step, old, new map[string]any) {
	names := slices.Collect(maps.Keys(old))
	for name := range new {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		d.compare(append(path, step{field: name}), valueOr(old, name), valueOr(new, name))
	}
}

func valueOr(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return Absent{}
}

// listKeys lists fields that identify elements of API lists, in order of preference.
var listKeys = []string{"name", "type", "uid", "key", "mountPath", "containerPort", "port", "ip", "topologyKey", "manager"}

// lists compares elements by key if they have one, scalars as a set, and others by index.
func (d *differ) lists(path []step, old, new []any) {
	if key, ok := listKey(old, new); ok {
		d.keyed(path, key, old, new)
		return
	}
	if scalars(old) && scalars(new) && len(old) > 0 && len(new) > 0 {
		d.sets(path, old, new)
		return
	}
	for i := range max(len(old), len(new)) {
		var o, n any = Absent{}, Absent{}
		if i < len(old) {
			o = old[i]
		}
		if i < len(new) {
			n = new[i]
		}
		d.compare(append(path, step{value: strconv.Itoa(i)}), o, n)
	}
}

// listKey returns a field that identifies the elements of both lists.
func listKey(old, new []any) (string, bool) {
	for _, key := range listKeys {
		if keyedBy(key, old) && keyedBy(key, new) {
			return key, true
		}
	}
	return "", false
}

func keyedBy(key string, list []any) bool {
	seen := map[string]bool{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		v, ok := m[key]
		if !ok || !scalar(v) || seen[fmt.Sprint(v)] {
			return false
		}
		seen[fmt.Sprint(v)] = true
	}
	return true
}

func (d *differ) keyed(path []step, key string, old, new []any) {
	byKey := func(list []any) map[string]any {
		m := make(map[string]any, len(list))
		for _, e := range list {
			m[fmt.Sprint(e.(map[string]any)[key])] = e
		}
		return m
	}
	before, after := byKey(old), byKey(new)
	n := len(d.edits)
	visited := map[string]bool{}
	for _, e := range append(slices.Clone(old), new...) {
		value := fmt.Sprint(e.(map[string]any)[key])
		if visited[value] {
			continue
		}
		visited[value] = true
		d.compare(append(path, step{key: key, value: value}), valueOr(before, value), valueOr(after, value))
	}
	if len(d.edits) == n { // at most the order differs
		d.compare(path, order(key, old), order(key, new))
	}
}

// order returns the keys of a list's elements in order.
func order(key string, list []any) string {
	var values []string
	for _, e := range list {
		values = append(values, fmt.Sprint(e.(map[string]any)[key]))
	}
	return "in the order " + strings.Join(values, ", ")
}

func setOf(scalars []any) map[any]bool {
	set := make(map[any]bool, len(scalars))
	for _, v := range scalars {
		set[v] = true
	}
	return set
}

// sets compares scalars as sets. If only order or multiplicity differ, it shows both lists.
func (d *differ) sets(path []step, old, new []any) {
	n := len(d.edits)
	before, after := setOf(old), setOf(new)
	for i, v := range old {
		if !after[v] {
			d.add(append(slices.Clone(path), step{value: strconv.Itoa(i)}), v, Absent{})
		}
	}
	for i, v := range new {
		if !before[v] {
			d.add(append(slices.Clone(path), step{value: strconv.Itoa(i)}), Absent{}, v)
		}
	}
	if len(d.edits) == n && !slices.Equal(old, new) {
		d.add(slices.Clone(path), old, new)
	}
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func scalars(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { return !scalar(v) })
}
