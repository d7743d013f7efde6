package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// edit is one difference between two objects: a field that came, went, or has another
// value. path leads to it.
type edit struct {
	path     []step
	old, new any // absent for a field that came, or went
}

// absent stands for no value, which is something else than null.
type absent struct{}

// step is one part of a path: a field, or an element of a list, which is known by its
// key or by its place.
type step struct {
	field string // empty for an element
	key   string // such as "name"; empty for a place
	value string // of the key, or the place
}

// String returns the step as it is written behind what leads to it.
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

// plainField reports whether a field's name cannot be mistaken for a part of a path.
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

func pathText(path []step) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteString(s.String())
	}
	return strings.TrimPrefix(b.String(), ".")
}

// fields returns the names of the fields on a path, as masks know them.
func (e edit) fields() (names []string) {
	for _, s := range e.path {
		if s.field != "" {
			names = append(names, s.field)
		}
	}
	return names
}

// diff returns what is to be changed in old to make new of it, in the order of the
// fields' names. What came or went is told leaf by leaf.
func diff(old, new any) []edit {
	var d differ
	d.compare(nil, old, new)
	return d.edits
}

type differ struct{ edits []edit }

func (d *differ) compare(path []step, old, new any) {
	if oldMap, newMap, ok := both[map[string]any](old, new); ok {
		d.maps(path, oldMap, newMap)
		return
	}
	if oldList, newList, ok := both[[]any](old, new); ok {
		d.lists(path, oldList, newList)
		return
	}
	if !reflect.DeepEqual(old, new) {
		d.edits = append(d.edits, edit{slices.Clone(path), old, new})
	}
}

// both takes two values of a container type; a missing one is an empty container unless
// both sides would be empty, for then there would be no difference to tell.
func both[C map[string]any | []any](old, new any) (o, n C, ok bool) {
	o, isOld := old.(C)
	n, isNew := new.(C)
	switch {
	case isOld && isNew:
		return o, n, true
	case isOld && new == absent{}:
		return o, n, reflect.ValueOf(o).Len() > 0
	case isNew && old == absent{}:
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
	return absent{}
}

// listKeys are fields that tell elements of the API's lists apart, the best first.
var listKeys = []string{"name", "type", "uid", "key", "mountPath", "containerPort", "port", "ip", "topologyKey", "manager"}

// lists compares elements by their key where they have one, scalars as a set, and others
// by their place.
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
		var o, n any = absent{}, absent{}
		if i < len(old) {
			o = old[i]
		}
		if i < len(new) {
			n = new[i]
		}
		d.compare(append(path, step{value: strconv.Itoa(i)}), o, n)
	}
}

// listKey returns the field that all elements of both lists have, each list no value twice.
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
	if len(d.edits) == n { // then at most their order is another
		d.compare(path, order(key, old), order(key, new))
	}
}

// order returns the keys of elements as text, in their order.
func order(key string, list []any) string {
	var values []string
	for _, e := range list {
		values = append(values, fmt.Sprint(e.(map[string]any)[key]))
	}
	return "in the order " + strings.Join(values, ", ")
}

// sets compares scalars: which came and which went. If that is none, their order or
// number is another, and the lists are told whole.
func (d *differ) sets(path []step, old, new []any) {
	n := len(d.edits)
	for i, v := range old {
		if !slices.Contains(new, v) {
			d.edits = append(d.edits, edit{append(slices.Clone(path), step{value: strconv.Itoa(i)}), v, absent{}})
		}
	}
	for i, v := range new {
		if !slices.Contains(old, v) {
			d.edits = append(d.edits, edit{append(slices.Clone(path), step{value: strconv.Itoa(i)}), absent{}, v})
		}
	}
	if len(d.edits) == n && !slices.Equal(old, new) {
		d.edits = append(d.edits, edit{slices.Clone(path), old, new})
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

// valueText writes a value as it is shown in a difference: a word as it is, all else as
// JSON.
func valueText(v any) string {
	if s, ok := v.(string); ok && bareWord(s) {
		return s
	}
	text, err := jsonText(v)
	if err != nil {
		return plain(fmt.Sprint(v))
	}
	return text
}

// bareWord reports whether a text reads as one without quotes: not as a number, nor as
// another JSON value.
func bareWord(s string) bool {
	if s == "" || json.Valid([]byte(s)) || plain(s) != s {
		return false
	}
	return !strings.ContainsAny(s, " \"'→")
}
