package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// difference is a field that the servers answer differently.
type difference struct {
	exchange, path string
	embedded, real any
}

func (d difference) String() string {
	return fmt.Sprintf("%s\n    %s\n        embedded: %s\n        real:     %s", d.exchange, d.path, cut(short(d.embedded)), cut(short(d.real)))
}

func cut(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}

func short(v any) string {
	if v == nil {
		return "nothing"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// nameOf returns the name of an element of a list, without dots, or "".
func nameOf(v any) string {
	m, _ := v.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	for _, name := range []any{m["name"], meta["name"], m["resource"], m["version"]} {
		if text, ok := name.(string); ok {
			return strings.ReplaceAll(text, ".", "_")
		}
	}
	return ""
}

// named returns the elements of a list by their names, or nil if some have none.
func named(list []any) map[string]any {
	out := map[string]any{}
	for _, v := range list {
		out[nameOf(v)] = v
	}
	if _, ok := out[""]; ok || len(out) < len(list) {
		return nil
	}
	return out
}

// namesOf returns the names of those elements of a list that are in a map, in order.
func namesOf(list []any, in map[string]any) (names []string) {
	for _, v := range list {
		if name := nameOf(v); in[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

// compare finds the fields that differ.
func compare(exchange, path string, embedded, genuine any) (found []difference) {
	switch e := embedded.(type) {
	case map[string]any:
		r, ok := genuine.(map[string]any)
		if !ok {
			break
		}
		names := slices.Collect(maps.Keys(e))
		for name := range r {
			if _, ok := e[name]; !ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			found = append(found, compare(exchange, strings.TrimPrefix(path+"."+name, "."), e[name], r[name])...)
		}
		return found
	case []any:
		r, ok := genuine.([]any)
		if !ok {
			break
		}
		here, there := named(e), named(r)
		if here != nil && there != nil && short(namesOf(e, here)) != short(namesOf(r, there)) {
			// What only one of them has does not hide differences of the rest.
			return append(compare(exchange, path, here, there), compare(exchange, path+".order", short(namesOf(e, there)), short(namesOf(r, here)))...)
		}
		if len(e) != len(r) {
			break
		}
		for i := range e {
			found = append(found, compare(exchange, path+"."+strconv.Itoa(i), e[i], r[i])...)
		}
		return found
	}
	if short(embedded) != short(genuine) {
		found = append(found, difference{exchange, path, embedded, genuine})
	}
	return found
}
