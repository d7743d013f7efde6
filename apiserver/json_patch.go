package apiserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

// apply returns the tree after the operation and may modify it in place. It adds the bytes
// it copies to copied.
func (o *operation) apply(tree any, copied *int) (any, error) {
	path, err := pointer(o.Path)
	if err != nil {
		return nil, err
	}
	switch o.Op {
	case "add", "replace", "test":
		if o.Value == nil {
			return nil, fmt.Errorf("%s %s has no value", o.Op, o.Path)
		}
		value, err := parseTree(o.Value)
		if err != nil {
			return nil, err
		}
		if o.Op == "test" {
			return tree, o.test(tree, path, value)
		}
		return edit(tree, path, o.Op, value)
	case "remove":
		return edit(tree, path, "remove", nil)
	case "move", "copy":
		return o.transfer(tree, path, copied)
	}
	return nil, fmt.Errorf("unknown operation %q", o.Op)
}

func (o *operation) test(tree any, path []string, want any) error {
	got, err := lookup(tree, path)
	if err != nil && want != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("testing value %s failed", o.Path)
	}
	return nil
}

// transfer performs a move or copy.
func (o *operation) transfer(tree any, path []string, copied *int) (any, error) {
	from, err := pointer(o.From)
	if err != nil {
		return nil, err
	}
	value, err := lookup(tree, from)
	if err != nil {
		return nil, err
	}
	if o.Op == "move" {
		if len(path) > len(from) && slices.Equal(path[:len(from)], from) {
			return nil, fmt.Errorf("%s cannot be moved into itself", o.From)
		}
		if tree, err = edit(tree, from, "remove", nil); err != nil {
			return nil, err
		}
		return edit(tree, path, "add", value)
	}
	size, err := measure(value, maxCopied, maxDepth)
	if err != nil {
		return nil, err
	}
	if *copied += size; *copied > maxCopied {
		return nil, fmt.Errorf("unable to complete the copy, the accumulated size increase of copy is %d, exceeding the limit %d", *copied, maxCopied)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	twin, err := parseTree(raw) // a copy, so that later operations modify only one of the two
	if err != nil {
		return nil, err
	}
	return edit(tree, path, "add", twin)
}

// pointer parses a JSON pointer (RFC 6901).
func pointer(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("path %q does not start with a slash", text)
	}
	parts := strings.Split(text[1:], "/")
	if len(parts) > maxDepth {
		return nil, errDeep
	}
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts, nil
}

func lookup(tree any, path []string) (any, error) {
	for _, step := range path {
		switch node := tree.(type) {
		case map[string]any:
			next, ok := node[step]
			if !ok {
				return nil, fmt.Errorf("no such field %q", step)
			}
			tree = next
		case []any:
			i, err := index(step, len(node)-1)
			if err != nil {
				return nil, err
			}
			tree = node[i]
		default:
			return nil, fmt.Errorf("cannot look up %q in a scalar", step)
		}
	}
	return tree, nil
}

// index parses a list index between 0 and last.
func index(step string, last int) (int, error) {
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i > last || len(step) > 1 && step[0] == '0' || step[0] == '+' {
		return 0, fmt.Errorf("invalid list index %q", step)
	}
	return i, nil
}

// edit adds, replaces or removes the value at a path and returns the tree.
func edit(tree any, path []string, op string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	step, rest := path[0], path[1:]
	switch node := tree.(type) {
	case map[string]any:
		child, exists := node[step]
		switch {
		case len(rest) == 0 && op == "remove" && exists:
			delete(node, step)
			return node, nil
		case !exists && (len(rest) > 0 || op != "add"):
			return nil, fmt.Errorf("no such field %q", step)
		}
		next, err := edit(child, rest, op, value)
		if err == nil {
			node[step] = next
		}
		return node, err
	case []any:
		return editList(node, step, rest, op, value)
	}
	return nil, fmt.Errorf("cannot look up %q in a scalar", step)
}

func editList(list []any, step string, rest []string, op string, value any) (any, error) {
	if len(rest) == 0 && op == "add" {
		if step == "-" {
			return append(list, value), nil
		}
		i, err := index(step, len(list))
		if err != nil {
			return nil, err
		}
		return slices.Insert(list, i, value), nil
	}
	i, err := index(step, len(list)-1)
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 && op == "remove" {
		return slices.Delete(list, i, i+1), nil
	}
	next, err := edit(list[i], rest, op, value)
	if err == nil {
		list[i] = next
	}
	return list, err
}
