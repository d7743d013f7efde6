package builtin

import (
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// models caches the schemas of Go types, so that each is built once per process. Nothing
// modifies a schema that is in it.
var models sync.Map // of reflect.Type to *model

// model is the schema of a Go type.
type model struct {
	name   string
	schema map[string]any
	refers []reflect.Type
}

// OpenAPI returns the OpenAPI v3 schemas of a built-in kind and of all types that it refers to,
// by name. They come from the Go type of obj and its documentation: a field is required if its
// JSON is never omitted. The caller must not modify the schemas.
func OpenAPI(gvk schema.GroupVersionKind, obj runtime.Object) map[string]any {
	schemas := map[string]any{}
	root := reflect.TypeOf(obj).Elem()
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		m := modelOf(t)
		if _, seen := schemas[m.name]; seen {
			return
		}
		schemas[m.name] = m.schema
		for _, other := range m.refers {
			visit(other)
		}
	}
	visit(root)
	m := modelOf(root)
	top := map[string]any{"x-kubernetes-group-version-kind": []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}}}
	for name, value := range m.schema {
		top[name] = value
	}
	schemas[m.name] = top
	return schemas
}

// These are implemented by API types.
type (
	named      interface{ OpenAPIModelName() string }
	documented interface{ SwaggerDoc() map[string]string }
	typed      interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	choice interface{ OpenAPIV3OneOfTypes() []string }
)

// modelOf returns the model of a struct type.
func modelOf(t reflect.Type) *model {
	if m, ok := models.Load(t); ok {
		return m.(*model)
	}
	m := &model{name: modelName(t), schema: map[string]any{}}
	if text := docsOf(t)[""]; text != "" {
		m.schema["description"] = text
	}
	if own, ok := reflect.Zero(t).Interface().(typed); ok {
		describe(m.schema, own)
	} else {
		properties := map[string]any{}
		m.schema["type"], m.schema["properties"] = "object", properties
		m.fields(t, properties)
	}
	stored, _ := models.LoadOrStore(t, m)
	return stored.(*model)
}

func modelName(t reflect.Type) string {
	if n, ok := reflect.Zero(t).Interface().(named); ok {
		return n.OpenAPIModelName()
	}
	return strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
}

// describe sets the type of a Go type that has its own JSON format.
func describe(to map[string]any, own typed) {
	if format := own.OpenAPISchemaFormat(); format != "" {
		to["format"] = format
	}
	if c, ok := own.(choice); ok {
		var types []any
		for _, t := range c.OpenAPIV3OneOfTypes() {
			types = append(types, map[string]any{"type": t})
		}
		to["oneOf"] = types
	} else if types := own.OpenAPISchemaType(); len(types) > 0 {
		to["type"] = types[0]
	}
}

// fields adds the properties of a struct, including those of inlined ones.
func (m *model) fields(t reflect.Type, properties map[string]any) {
	docs := docsOf(t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			m.fields(f.Type, properties)
		}
		if name == "" || name == "-" {
			continue
		}
		property := m.property(f.Type)
		properties[name] = property
		for key, text := range map[string]string{
			"description": docs[name], "x-kubernetes-patch-strategy": f.Tag.Get("patchStrategy"), "x-kubernetes-patch-merge-key": f.Tag.Get("patchMergeKey"),
		} {
			if text != "" {
				property[key] = text
			}
		}
		if !strings.Contains(flags, "omit") {
			required, _ := m.schema["required"].([]string)
			m.schema["required"] = append(required, name)
		}
	}
}

// docsOf returns the documentation of a type's fields by name, and of itself by "".
func docsOf(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(documented); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// property returns the schema of a field, which the caller may modify.
func (m *model) property(t reflect.Type) map[string]any {
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		m.refers = append(m.refers, t)
		property := map[string]any{"allOf": []any{map[string]any{"$ref": "#/components/schemas/" + modelName(t)}}}
		if _, own := reflect.Zero(t).Interface().(typed); !own && !pointer {
			property["default"] = map[string]any{}
		}
		return property
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": m.property(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": m.property(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer", "format": t.Kind().String()}
	case reflect.Int, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number", "format": "double"}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	return map[string]any{} // any value
}
