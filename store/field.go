package store

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// content is what unstructured objects have.
type content interface{ UnstructuredContent() map[string]any }

// FieldIndex creates an index of objects by the value of a field, such as "spec.nodeName" or
// "spec.containers.image". The path uses JSON field names. A list in the path stands for each of
// its elements. A map needs a key, in brackets if it contains dots:
// "metadata.labels[app.kubernetes.io/name]". Numbers and booleans are indexed as text. An object
// has no value if a pointer, list or map in the path is nil or empty.
//
// The path is resolved once, against the Go type T; the error names a part that does not exist.
// For unstructured objects only the syntax of the path is checked.
func FieldIndex[T any](path string) (*Index[T, string], error) {
	parts, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	t := reflect.TypeFor[T]()
	if t.Implements(reflect.TypeFor[content]()) {
		return NewMultiIndex(path, func(obj T, add func(string)) error {
			addAny(any(obj).(content).UnstructuredContent(), parts, add)
			return nil
		}).Reads(parts), nil
	}
	c := compiler{path: path}
	get, err := c.compile(t, parts)
	if err != nil {
		return nil, err
	}
	if !c.optional {
		return NewIndex(path, func(obj T) string {
			v := reflect.ValueOf(obj).Elem()
			for _, i := range c.fields {
				v = v.Field(i)
			}
			return v.String()
		}).Reads(parts), nil
	}
	return NewMultiIndex(path, func(obj T, add func(string)) error {
		get(reflect.ValueOf(obj), add)
		return nil
	}).Reads(parts), nil
}

// badPath is the error for a path.
func badPath(path, format string, args ...any) error {
	return fmt.Errorf("store: bad field path %q: %s", path, fmt.Sprintf(format, args...))
}

// splitPath cuts "a.b[c.d].e" into a, b, c.d and e.
func splitPath(path string) ([]string, error) {
	bad := func(format string, args ...any) error {
		return badPath(path, format, args...)
	}
	var parts []string
	for rest := strings.TrimPrefix(path, "."); ; {
		end := strings.IndexAny(rest, ".[")
		name := rest
		if end >= 0 {
			name = rest[:end]
		}
		if name == "" {
			return nil, bad("it has an empty part after %q", strings.Join(parts, "."))
		}
		parts = append(parts, name)
		if end < 0 {
			return parts, nil
		}
		rest = rest[end:]
		for strings.HasPrefix(rest, "[") {
			key, after, closed := strings.Cut(rest[1:], "]")
			if !closed {
				return nil, bad("the bracket before %q is never closed", rest[1:])
			}
			if key = strings.Trim(key, `'"`); key == "" {
				return nil, bad("it has empty brackets after %q", strings.Join(parts, "."))
			}
			parts, rest = append(parts, key), after
		}
		if rest == "" {
			return parts, nil
		}
		if rest[0] != '.' {
			return nil, bad("there must be a dot before %q", rest)
		}
		rest = rest[1:]
	}
}

// addAny walks decoded JSON.
func addAny(v any, parts []string, add func(string)) {
	switch v := v.(type) {
	case map[string]any:
		if len(parts) > 0 {
			if next, ok := v[parts[0]]; ok {
				addAny(next, parts[1:], add)
			}
		}
		return
	case []any:
		for _, e := range v {
			addAny(e, parts, add)
		}
		return
	}
	if len(parts) > 0 {
		return
	}
	switch v := v.(type) {
	case string:
		add(v)
	case bool:
		add(strconv.FormatBool(v))
	case int64:
		add(strconv.FormatInt(v, 10))
	case float64:
		add(strconv.FormatFloat(v, 'g', -1, 64))
	case nil:
	default:
		add(fmt.Sprint(v))
	}
}

// getter adds the values that it finds in v.
type getter func(v reflect.Value, add func(string))

// compiler resolves a path against a type.
type compiler struct {
	path string
	// fields are the indexes to follow from the struct behind the first pointer, as
	// long as optional is false: then that is all there is to it.
	fields   []int
	optional bool
	depth    int
}

func (c *compiler) fail(format string, args ...any) error {
	return badPath(c.path, format, args...)
}

func (c *compiler) compile(t reflect.Type, parts []string) (getter, error) {
	c.depth++
	switch t.Kind() {
	case reflect.Pointer:
		if c.depth > 1 {
			c.optional = true
		}
		next, err := c.compile(t.Elem(), parts)
		if err != nil {
			return nil, err
		}
		return func(v reflect.Value, add func(string)) {
			if !v.IsNil() {
				next(v.Elem(), add)
			}
		}, nil
	case reflect.Slice, reflect.Array:
		c.optional = true
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice && len(parts) == 0 {
			return func(v reflect.Value, add func(string)) {
				if v.Len() > 0 {
					add(base64.StdEncoding.EncodeToString(v.Bytes())) // as in JSON
				}
			}, nil
		}
		next, err := c.compile(t.Elem(), parts)
		if err != nil {
			return nil, err
		}
		return func(v reflect.Value, add func(string)) {
			for i := range v.Len() {
				next(v.Index(i), add)
			}
		}, nil
	}
	if len(parts) == 0 {
		return c.leaf(t)
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.field(t, parts)
	case reflect.Map:
		return c.entry(t, parts)
	}
	return nil, c.fail("%s has no fields, so there is no %q in it", t, parts[0])
}

func (c *compiler) field(t reflect.Type, parts []string) (getter, error) {
	at, ok := jsonField(t, parts[0])
	if !ok {
		hint := ""
		if near := nearest(parts[0], jsonNames(t)); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, c.fail("%s has no field %q%s", t, parts[0], hint)
	}
	c.fields = append(c.fields, at...)
	if c.depth == 1 {
		c.optional = true // T is the struct itself
	}
	for i := 1; i < len(at); i++ {
		if t.FieldByIndex(at[:i]).Type.Kind() == reflect.Pointer {
			c.optional = true // an embedded pointer
		}
	}
	next, err := c.compile(t.FieldByIndex(at).Type, parts[1:])
	if err != nil {
		return nil, err
	}
	return func(v reflect.Value, add func(string)) {
		for i, field := range at {
			if i > 0 && v.Kind() == reflect.Pointer {
				if v.IsNil() {
					return
				}
				v = v.Elem()
			}
			v = v.Field(field)
		}
		next(v, add)
	}, nil
}

func (c *compiler) entry(t reflect.Type, parts []string) (getter, error) {
	c.optional = true
	if t.Key().Kind() != reflect.String {
		return nil, c.fail("%s cannot be entered by the key %q", t, parts[0])
	}
	next, err := c.compile(t.Elem(), parts[1:])
	if err != nil {
		return nil, err
	}
	name, key := parts[0], reflect.ValueOf(parts[0]).Convert(t.Key())
	return func(v reflect.Value, add func(string)) {
		// By far the most common map, without the copy that MapIndex makes.
		if m, ok := v.Interface().(map[string]string); ok {
			if s, ok := m[name]; ok {
				add(s)
			}
			return
		}
		if e := v.MapIndex(key); e.IsValid() {
			next(e, add)
		}
	}, nil
}

// leaf reads a single value.
func (c *compiler) leaf(t reflect.Type) (getter, error) {
	if t.Kind() != reflect.String {
		c.optional = true
	}
	switch t.Kind() {
	case reflect.String:
		return func(v reflect.Value, add func(string)) { add(v.String()) }, nil
	case reflect.Bool:
		return func(v reflect.Value, add func(string)) { add(strconv.FormatBool(v.Bool())) }, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(v reflect.Value, add func(string)) { add(strconv.FormatInt(v.Int(), 10)) }, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(v reflect.Value, add func(string)) { add(strconv.FormatUint(v.Uint(), 10)) }, nil
	case reflect.Float32, reflect.Float64:
		return func(v reflect.Value, add func(string)) {
			add(strconv.FormatFloat(v.Float(), 'g', -1, 64))
		}, nil
	}
	if t.Kind() == reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		// One value in JSON, such as a time or a quantity.
		return func(v reflect.Value, add func(string)) {
			p := reflect.New(t) // a copy: the object is read-only and v may not be addressable
			p.Elem().Set(v)
			text, err := p.Interface().(json.Marshaler).MarshalJSON()
			if err != nil || string(text) == "null" {
				return
			}
			if s, err := strconv.Unquote(string(text)); err == nil {
				add(s)
			} else {
				add(string(text))
			}
		}, nil
	}
	return nil, c.fail("it ends at %s, which is not a single value; name a field of it", t)
}

// jsonField finds a field by its JSON name, also in structs that are inlined.
func jsonField(t reflect.Type, name string) (at []int, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, inline := jsonTag(f)
		if inline {
			if below, ok := jsonField(structOf(f.Type), name); ok {
				return append([]int{i}, below...), true
			}
		} else if tag == name {
			return []int{i}, true
		}
	}
	return nil, false
}

func jsonNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if tag, inline := jsonTag(f); inline {
			names = append(names, jsonNames(structOf(f.Type))...)
		} else if tag != "" {
			names = append(names, tag)
		}
	}
	return names
}

// jsonTag returns a field's JSON name, empty for one that JSON does not have.
func jsonTag(f reflect.StructField) (name string, inline bool) {
	tag := f.Tag.Get("json")
	name, options, _ := strings.Cut(tag, ",")
	isStruct := structOf(f.Type).Kind() == reflect.Struct
	embedded := f.Anonymous && name == "" && isStruct && (f.IsExported() || f.Type.Kind() == reflect.Struct)
	switch {
	case tag == "-" || !f.IsExported() && !embedded:
		return "", false
	case embedded || strings.Contains(options, "inline") && isStruct:
		return "", true
	case name == "":
		return f.Name, false
	}
	return name, false
}

// structOf looks through one pointer.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// nearest returns the candidate that is most like name, if one is at most two edits away and
// not all of it would have to change.
func nearest(name string, candidates []string) string {
	best, least := "", 3
	for _, c := range candidates {
		if d := edits(strings.ToLower(name), strings.ToLower(c)); d < min(least, len(c)) {
			best, least = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
