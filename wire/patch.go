package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// Patch is a patch in one of the formats of the API.
type Patch struct {
	contentType string
	data        []byte
	err         error
}

// JSONPatch returns a JSON patch (RFC 6902): a list of operations.
func JSONPatch(data []byte) Patch {
	return Patch{contentType: "application/json-patch+json", data: data}
}

// MergePatch returns a merge patch (RFC 7386): an object with the fields to change. null removes a
// field, and a list replaces a list.
func MergePatch(data []byte) Patch {
	return Patch{contentType: "application/merge-patch+json", data: data}
}

// StrategicPatch returns a strategic merge patch, which merges lists by their keys. Only built-in
// kinds support it.
func StrategicPatch(data []byte) Patch {
	return Patch{contentType: "application/strategic-merge-patch+json", data: data}
}

// MergePatchOf returns a merge patch with the JSON encoding of v.
func MergePatchOf(v any) Patch {
	data, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("encode the patch: %w", err)
	}
	p := MergePatch(data)
	p.err = err
	return p
}

// Patch patches an object.
func (a *API[T]) Patch(ctx context.Context, key object.Key, patch Patch, opts WriteOptions) (T, error) {
	return a.do(ctx, patchRequest(a.request(VerbPatch, key), patch, opts))
}

func patchRequest(r *Request, patch Patch, opts WriteOptions) *Request {
	switch {
	case patch.err != nil:
		r.fail("%w", patch.err)
	case len(patch.data) == 0:
		r.fail("the patch is empty; use wire.MergePatch, wire.JSONPatch or wire.StrategicPatch")
	}
	return opts.params(r.Body(patch.contentType, patch.data))
}

// Apply is server-side apply: it sets the fields of config and removes those that this manager
// applied before and that config no longer has. config is anything that encodes to JSON: one of
// client-go's apply configurations, a map, an unstructured object. A Go API type also applies
// its zero fields that lack omitempty. Kind and name are added if config lacks them. It needs a field manager.
func (a *API[T]) Apply(ctx context.Context, key object.Key, config any, opts WriteOptions) (T, error) {
	data, err := applyBody(config, key, a.resource.GVK())
	patch := Patch{contentType: "application/apply-patch+yaml", data: data, err: err}
	r := patchRequest(a.request(VerbPatch, key), patch, opts)
	if opts.FieldManager == "" {
		r.fail("server-side apply needs WriteOptions.FieldManager")
	}
	if opts.Force {
		r.Param("force", "true")
	}
	return a.do(ctx, r.Idempotent())
}

// applyBody returns config as JSON with kind and name. The content type is YAML, of which JSON is a
// subset.
func applyBody(config any, key object.Key, gvk schema.GroupVersionKind) ([]byte, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode the apply configuration: %w", err)
	}
	var top, meta map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil || top == nil {
		return nil, fmt.Errorf("the apply configuration %T is not an object", config)
	}
	if raw, ok := top["metadata"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, errors.New("the apply configuration's metadata is not an object")
		}
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	// The server rejects managed fields in an apply configuration.
	delete(meta, "managedFields")
	for _, f := range []struct {
		in          map[string]json.RawMessage
		name, value string
	}{
		{top, "apiVersion", gvk.GroupVersion().String()},
		{top, "kind", gvk.Kind},
		{meta, "name", key.Name},
		{meta, "namespace", key.Namespace},
	} {
		var have string
		if raw, ok := f.in[f.name]; ok {
			if err := json.Unmarshal(raw, &have); err != nil {
				return nil, fmt.Errorf("%s of the apply configuration is not a string", f.name)
			}
		}
		switch {
		case have == f.value:
		case have != "":
			return nil, fmt.Errorf("%s of the apply configuration is %q, want %q", f.name, have, f.value)
		default:
			f.in[f.name], _ = json.Marshal(f.value)
		}
	}
	if top["metadata"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(top)
}
