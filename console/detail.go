package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/masking"
	"github.com/tarnproject/tarn/internal/objectdiff"
	"github.com/tarnproject/tarn/object"
)

const (
	maxOwners     = 10  // levels above an object
	maxDependents = 200 // objects that are listed below one
	maxReconciles = 50
	maxOwnerScan  = 20_000 // objects that are read to find them, in mirrors without an owner index
)

// objectDetail is the body of /object.
type objectDetail struct {
	Mirror     string     `json:"mirror"`
	Key        string     `json:"key"`
	UID        string     `json:"uid,omitempty"`
	Version    string     `json:"version,omitempty"`
	YAML       string     `json:"yaml,omitempty"`
	Masked     []string   `json:"masked"`
	Owners     []relative `json:"owners"`
	Dependents []relative `json:"dependents"`
	Truncated  bool       `json:"truncated,omitempty"`
	// Reconciles are those of its key and of its owners' keys, newest first.
	Reconciles []ReconcileRecord `json:"reconciles"`
	// History has the last changes, newest first. It is missing if the mirror keeps none.
	History    []change         `json:"history,omitempty"`
	Quarantine *quarantinedJSON `json:"quarantine,omitempty"`
}

// change is what changed from one version of an object to the next.
type change struct {
	At      string       `json:"at,omitempty"`
	Version string       `json:"version,omitempty"`
	Kind    string       `json:"kind"`
	Changes []fieldValue `json:"changes"`
}

// fieldValue is a field that differs. Old is missing if it was added, and New if it was removed.
type fieldValue struct {
	Path string `json:"path"`
	Old  *any   `json:"old,omitempty"`
	New  *any   `json:"new,omitempty"`
}

// relative is an owner or a dependent of an object.
type relative struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	// Mirror has the object; empty if none does.
	Mirror string `json:"mirror,omitempty"`
}

// object responds with one object. It is not found if it is neither in the mirror nor in
// quarantine.
func (h *handler) object(r *http.Request) (any, error) {
	m, err := h.mirror(r)
	if err != nil {
		return nil, err
	}
	key, err := object.Parse(r.URL.Query().Get("key"))
	if err != nil {
		return nil, failf(http.StatusBadRequest, "key: %v", err)
	}
	done, err := h.read(r)
	if err != nil {
		return nil, err
	}
	defer done()
	out := objectDetail{Mirror: m.Name(), Key: key.String(), Masked: []string{}, Owners: []relative{}, Dependents: []relative{}, Reconciles: []ReconcileRecord{}}
	status := h.cluster.Status()
	if i := slices.IndexFunc(status.Mirrors, func(s MirrorStatus) bool { return s.Name == m.Name() }); i >= 0 {
		quarantined := encodeMirror(status.Mirrors[i]).Quarantined
		if q := slices.IndexFunc(quarantined, func(q quarantinedJSON) bool { return q.Key == out.Key }); q >= 0 {
			out.Quarantine = &quarantined[q]
		}
	}
	if out.History, err = changes(r.Context(), m, key); err != nil {
		return nil, err
	}
	obj, ok := m.Get(key)
	switch {
	case !ok && out.Quarantine == nil && out.History == nil:
		return nil, failf(http.StatusNotFound, "the mirror %q has no object %s", m.Name(), key)
	case !ok:
		return out, nil
	}
	out.UID, out.Version = string(obj.GetUID()), obj.GetResourceVersion()
	content, masked, err := shown(m, obj)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		return nil, err
	}
	out.YAML, out.Masked = string(text), append(out.Masked, masked...)
	f := family{h.cluster, status.Mirrors}
	out.Owners = append(out.Owners, f.owners(obj)...)
	dependents, truncated := f.dependents(obj)
	out.Dependents, out.Truncated = append(out.Dependents, dependents...), truncated
	out.Reconciles = append(out.Reconciles, h.reconciles(m, key, out.Owners, &status)...)
	return out, nil
}

// reconciles returns the last reconciles of an object's key and its owners' keys, by the controllers
// that subscribe to its mirror.
func (h *handler) reconciles(m Mirror, key object.Key, owners []relative, st *Status) (all []ReconcileRecord) {
	keys := []object.Key{key}
	for _, owner := range owners {
		if k := object.RawKey(owner.Key); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for i := range st.Controllers {
		name := st.Controllers[i].Name
		ctl := h.cluster.ControllerNamed(name)
		if ctl == nil || !subscribes(st, name, m.Name()) {
			continue
		}
		for _, k := range keys {
			for _, r := range ctl.Inspect(k).Recent {
				all = append(all, recordOf(name, r))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ReconcileRecord) int { return cmp.Compare(b.At, a.At) })
	return all[:min(len(all), maxReconciles)]
}

const (
	maxChanges = 500  // fields of one change that are listed
	maxValue   = 2000 // bytes of a value in it
)

// changes returns the differences between the versions of an object that are kept, newest first.
func changes(ctx context.Context, m Mirror, key object.Key) (all []change, err error) {
	var before any = objectdiff.Absent{}
	for i, v := range m.History(key) {
		if err := ctx.Err(); err != nil {
			return nil, err // the client no longer waits
		}
		var now any = objectdiff.Absent{}
		if v.JSON != nil {
			obj := &unstructured.Unstructured{}
			if err := utiljson.Unmarshal(v.JSON, &obj.Object); err != nil {
				return nil, err
			}
			content, _, err := shown(m, obj)
			if err != nil {
				return nil, err
			}
			now = content
		}
		c := change{At: stamp(v.At), Version: v.Version, Kind: v.Kind, Changes: []fieldValue{}}
		if i > 0 && v.JSON != nil { // the first version has nothing to compare with
			for _, e := range objectdiff.First(before, now, maxChanges) {
				if e.Path.String() == "metadata.resourceVersion" {
					continue
				}
				c.Changes = append(c.Changes, fieldValue{e.Path.String(), valueOf(e.Old), valueOf(e.New)})
			}
		}
		all, before = append(all, c), now
	}
	slices.Reverse(all)
	return all, nil
}

// valueOf returns a value for JSON; nil if it is absent. A large one is cut.
func valueOf(v any) *any {
	if v == (any)(objectdiff.Absent{}) {
		return nil
	}
	text, ok := v.(string)
	if !ok {
		if data, err := encode(v); err == nil && len(data) > maxValue {
			text = string(data)
		}
	}
	if len(text) > maxValue {
		v = strings.ToValidUTF8(text[:maxValue], "") + "…"
	}
	return &v
}

// shown returns the content of an object as the console shows it: with its kind, which the items
// of a list lack, and without secret values. Every object that leaves the console passes here.
func shown(m Mirror, obj controller.Object) (content map[string]any, masked []string, err error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content = u.Object
	} else if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err != nil {
		return nil, nil, err
	}
	content, masked = masking.Object(m.Resource(), content, m.Masked())
	if content["kind"] == nil {
		content = maps.Clone(content)
		content["apiVersion"], content["kind"] = m.Resource().GVK().ToAPIVersionAndKind()
	}
	return content, masked, nil
}

// family finds owners and dependents in the mirrors.
type family struct {
	cluster Cluster
	mirrors []MirrorStatus
}

// owners returns the controllers of an object, or else its first owners, from the direct one
// upwards.
func (f family) owners(obj metav1.Object) (all []relative) {
	for len(all) < maxOwners {
		refs := obj.GetOwnerReferences()
		if len(refs) == 0 {
			return all
		}
		ref := refs[0]
		if c := metav1.GetControllerOfNoCopy(obj); c != nil {
			ref = *c
		}
		gv, _ := schema.ParseGroupVersion(ref.APIVersion)
		owner := relative{Kind: ref.Kind, Key: ref.Name}
		var next metav1.Object
		for i := range f.mirrors {
			res := f.mirrors[i].Resource
			if res.Kind != ref.Kind || res.Group != gv.Group {
				continue
			}
			key := object.Key{Name: ref.Name}
			if res.Namespaced {
				key.Namespace = obj.GetNamespace()
			}
			owner.Key = key.String()
			m := f.cluster.MirrorNamed(f.mirrors[i].Name)
			if m == nil {
				continue
			}
			if found, ok := m.Get(key); ok && found.GetUID() == ref.UID {
				owner.Mirror, next = m.Name(), found
				break
			}
		}
		all = append(all, owner)
		if next == nil {
			return all
		}
		obj = next
	}
	return all
}

// dependents returns the objects that an object owns. truncated says that there may be more.
func (f family) dependents(obj metav1.Object) (all []relative, truncated bool) {
	budget := maxOwnerScan
	seen := map[relative]bool{}
	for i := range f.mirrors {
		m := f.cluster.MirrorNamed(f.mirrors[i].Name)
		if m == nil || obj.GetNamespace() != "" && !m.Resource().Namespaced {
			continue
		}
		add := func(key object.Key) bool {
			d := relative{Kind: m.Resource().Kind, Key: key.String(), Mirror: m.Name()}
			same := relative{Kind: m.Resource().GVK().GroupKind().String(), Key: d.Key}
			if seen[same] {
				return true // in another mirror of the resource
			}
			if len(all) == maxDependents {
				truncated = true
				return false
			}
			seen[same] = true
			all = append(all, d)
			return true
		}
		if keys, ok := m.Find("owner", string(obj.GetUID())); ok {
			slices.Sort(keys)
			for _, key := range keys {
				if !add(object.RawKey(key)) {
					break
				}
			}
			continue
		}
		m.Keys(func(key object.Key) bool {
			if obj.GetNamespace() != "" && key.Namespace != obj.GetNamespace() {
				return true
			}
			if budget--; budget < 0 {
				truncated = true
				return false
			}
			child, ok := m.Get(key)
			owns := ok && slices.ContainsFunc(child.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() })
			return !owns || add(key)
		})
	}
	slices.SortFunc(all, func(a, b relative) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	return all, truncated
}
