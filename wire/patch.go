package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// Patch is a change to an object, in one of the API's languages for changes.
type Patch struct {
	contentType string
	data        []byte
	err         error
}

// JSONPatch is a list of operations as in RFC 6902.
func JSONPatch(data []byte) Patch {
	return Patch{contentType: "application/json-patch+json", data: data}
}

// MergePatch is an object with what is to change, as in RFC 7386: null removes, and
// a list replaces a list.
func MergePatch(data []byte) Patch {
	return Patch{contentType: "application/merge-patch+json", data: data}
}

// StrategicPatch is a merge patch that merges lists by their keys. Only built-in
// kinds know it.
func StrategicPatch(data []byte) Patch {
	return Patch{contentType: "application/strategic-merge-patch+json", data: data}
}

// MergePatchOf is the merge patch that a Go value becomes as JSON.
func MergePatchOf(v any) Patch {
	data, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("encoding the patch: %w", err)
	}
	p := MergePatch(data)
	p.err = err
	return p
}

// Patch changes an object, or a part of it when a subresource is named.
func (a *API[T]) Patch(ctx context.Context, key object.Key, patch Patch, opts WriteOptions, subresource ...string) (T, error) {
	return a.do(ctx, patchRequest(a.request(VerbPatch, key), patch, opts, subresource))
}

func patchRequest(r *Request, patch Patch, opts WriteOptions, subresource []string) *Request {
	switch {
	case patch.err != nil:
		r.fail("%w", patch.err)
	case len(patch.data) == 0:
		r.fail("the patch is empty; make it with wire.MergePatch or one of its kind")
	case len(subresource) > 1:
		r.fail("a patch goes to one subresource, not to %q", subresource)
	case len(subresource) == 1:
		r.Subresource(subresource[0])
	}
	return opts.params(r.Body(patch.contentType, patch.data))
}

// ApplyOptions are those of server-side apply.
type ApplyOptions struct {
	// FieldManager is who the fields belong to from now on. It is required.
	FieldManager string
	// Force takes fields over from other managers. Defaults to false: the server
	// refuses with a conflict that names them.
	Force bool
	// DryRun goes through everything but does not store. Defaults to false.
	DryRun bool
	// Validation is how unknown fields are taken. Defaults to the server's choice.
	Validation FieldValidation
}

// Apply is server-side apply: the object comes to have the fields of config, and
// loses those that this manager applied before and that config no longer has.
// Config is anything that becomes JSON: one of client-go's apply configurations, a
// map, an unstructured object. A Go API type works too, but says more than one
// means: its fields without omitempty are applied as empty. Kind and name are
// filled in where config leaves them out.
func (a *API[T]) Apply(ctx context.Context, key object.Key, config any, opts ApplyOptions, subresource ...string) (T, error) {
	data, err := applyBody(config, key, a.resource.GVK())
	patch := Patch{contentType: "application/apply-patch+yaml", data: data, err: err}
	r := patchRequest(a.request(VerbPatch, key), patch,
		WriteOptions{FieldManager: opts.FieldManager, DryRun: opts.DryRun, Validation: opts.Validation}, subresource)
	if opts.FieldManager == "" {
		r.fail("server-side apply needs ApplyOptions.FieldManager: who owns the fields")
	}
	if opts.Force {
		r.Param("force", "true")
	}
	return a.do(ctx, r.Idempotent())
}

// applyBody returns config as JSON with the kind and the name that it is to have.
// JSON is YAML, which is what the content type promises.
func applyBody(config any, key object.Key, gvk schema.GroupVersionKind) ([]byte, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the apply configuration: %w", err)
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
	// The server refuses it, and says so less clearly.
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
			return nil, fmt.Errorf("%s of the apply configuration is %q, but %q is to be applied", f.name, have, f.value)
		default:
			f.in[f.name], _ = json.Marshal(f.value)
		}
	}
	if top["metadata"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(top)
}
