package registry

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/tarnproject/tarn/apiserver/internal/admission"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/ownership"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/special"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// editor returns the complete new state of an object for its latest record. It runs again
// after a conflict.
type editor func(old *kinds.Record) (runtime.Object, error)

// editOf reads the update or patch of a request.
func (s *Registry) editOf(w http.ResponseWriter, r *request.Request) (editor, error) {
	if r.Verb == "update" {
		obj, err := s.readUpdate(w, r)
		return replacing(r, obj), err
	}
	raw, patchType, err := r.ReadPatch()
	if err != nil {
		return nil, err
	}
	if patchType == types.ApplyYAMLPatchType {
		applied, err := s.readApplied(r, raw)
		return s.applying(r, applied), err
	}
	return s.patching(w, r, patchType, raw), nil
}

// ServeUpdate serves an update.
func (s *Registry) ServeUpdate(w http.ResponseWriter, r *request.Request) error {
	obj, err := s.readUpdate(w, r)
	if err != nil {
		return err
	}
	if r.Subresource == "" && r.Kind.Typed && kinds.CreatedByUpdate[r.Kind.Kind] && s.Storage.Get(r.Kind, r.Key()) == nil {
		if uid := kinds.MetaOf(obj).GetUID(); uid != "" {
			return kinds.UpdatePreconditionFailed(r.Kind, r.Key(), "UID", string(uid), "")
		}
		if done, err := s.createMissing(w, r, obj.DeepCopyObject()); done || err != nil {
			return err
		}
	}
	return s.sendModified(w, r, replacing(r, obj))
}

// readUpdate reads the object of an update.
func (s *Registry) readUpdate(w http.ResponseWriter, r *request.Request) (runtime.Object, error) {
	obj, err := r.Read(w, s.Codecs)
	if err != nil {
		return nil, err
	}
	return obj, s.checkTarget(r, kinds.MetaOf(obj))
}

// replacing returns the editor of an update.
func replacing(r *request.Request, obj runtime.Object) editor {
	return func(*kinds.Record) (runtime.Object, error) {
		if (!r.Kind.Typed || kinds.Versioned[r.Kind.Kind]) && kinds.MetaOf(obj).GetResourceVersion() == "" {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Resource.Resource}, r.Name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
		}
		return obj.DeepCopyObject(), nil
	}
}

// checkTarget gives an object the namespace of the path and checks that its name is that of the path.
func (s *Registry) checkTarget(r *request.Request, m metav1.Object) error {
	if err := setNamespace(m, r.Namespace); err != nil {
		return err
	}
	if m.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", r.Name))
	}
	if m.GetName() != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", m.GetName(), r.Name))
	}
	return nil
}

// sendModified updates the object of a request and responds with the result.
func (s *Registry) sendModified(w http.ResponseWriter, r *request.Request, edit editor) error {
	rec, err := s.modify(r, s.Webhooks.Admit(w, r), r.Updater(), func(old *kinds.Record) (runtime.Object, error) {
		next, err := edit(old)
		if err == nil && r.Subresource == "" {
			warnFinalizers(r.Kind, w, kinds.MetaOf(next), old.Meta)
		}
		return next, err
	})
	if err != nil {
		return err
	}
	return s.Out.Record(w, r, http.StatusOK, rec)
}

// modify updates the object of a request, except for a dry run, and returns the result.
func (s *Registry) modify(r *request.Request, admit *admission.Admission, manager string, edit editor) (*kinds.Record, error) {
	for {
		old := s.Storage.Get(r.Kind, r.Key())
		if old == nil {
			return nil, kinds.NotFound(r.Kind, r.Name)
		}
		next, err := edit(old)
		if err != nil {
			return nil, err
		}
		if next, err = s.Ownership.Updated(r.Kind, r.Subresource, r.Kind.Working(old), next, manager); err != nil {
			return nil, err
		}
		if next, err = admit.Change(old, next); err != nil {
			return nil, err
		}
		if next, err = s.prepare(r.Kind, r.Subresource, old, next); err != nil {
			return nil, err
		}
		if r.Subresource == "" {
			admit.Warn(r.Kind, next, old.Obj)
		}
		if err := admit.Check(old, next); err != nil {
			return nil, err
		}
		if r.DryRun() {
			return kinds.NewUnstored(next), nil
		}
		if rec, ok, err := s.store(r.Kind, old, next); ok || err != nil {
			return rec, err
		}
	}
}

// store commits a prepared update and runs the garbage collector.
func (s *Registry) store(k *kinds.Kind, old *kinds.Record, next runtime.Object) (*kinds.Record, bool, error) {
	rec, ok, more, err := s.storeOne(k, old, next)
	s.processGC(more...)
	return rec, ok, err
}

// storeOne is store without garbage collection. It returns the writes to process.
func (s *Registry) storeOne(k *kinds.Kind, old *kinds.Record, next runtime.Object) (*kinds.Record, bool, []gcItem, error) {
	var defined []*kinds.Kind
	if d, ok := next.(*kinds.Definition); ok {
		s.establish(d, old.Meta.GetCreationTimestamp())
		was := old.Obj.(*kinds.Definition)
		if !kinds.SameSpec(k, was, d) || !equality.Semantic.DeepEqual(was.Status.AcceptedNames, d.Status.AcceptedNames) {
			var err error
			if defined, err = kinds.Serving(d, s.Schemas); err != nil {
				return nil, false, nil, err
			}
		}
	}
	if m := kinds.MetaOf(next); m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 && graceless(m) && !special.Of(next).StaysMarked(next) {
		// An update that removes the last finalizer of a terminating object is not stored:
		// watches receive only the deletion, with the previous state.
		last, ok := s.Storage.Commit(k, old.Key, old, nil)
		if !ok {
			return nil, false, nil, nil
		}
		return kinds.NewUnstored(next), true, []gcItem{{kind: k, old: old, rec: last, deleted: true}}, nil
	}
	if err := checkSize(next); err != nil {
		return nil, false, nil, err
	}
	rec, ok, _ := s.Storage.CommitIf(k, old.Key, old, next, func() error { return s.checkAllocated(k, next, old) })
	if !ok { // a conflict, or an address was taken
		return nil, false, nil, nil
	}
	if defined != nil {
		if err := s.Define(defined); err != nil {
			return nil, false, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if rec == old {
		return rec, true, nil, nil
	}
	return rec, true, []gcItem{{kind: k, old: old, rec: rec}}, nil
}

func graceless(m metav1.Object) bool {
	grace := m.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// everything, in place of a subresource, writes the status and the rest together.
const everything = "*"

// prepare validates a new state against the old one, sets the server-managed fields and
// returns it in the storage version.
func (s *Registry) prepare(k *kinds.Kind, subresource string, old *kinds.Record, next runtime.Object) (runtime.Object, error) {
	m, was := kinds.MetaOf(next), old.Meta
	if uid := m.GetUID(); uid != "" && uid != was.GetUID() {
		return nil, kinds.UpdatePreconditionFailed(k, old.Key, "UID", string(uid), string(was.GetUID()))
	}
	if v := m.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
		if _, err := strconv.ParseUint(v, 10, 64); err != nil {
			return nil, apierror.Failed(err.Error())
		}
		return nil, kinds.Conflict(k, old.Key)
	}
	before := k.Working(old)
	validated := before
	if subresource == everything {
		if subresource = ""; k.Strict {
			validated = bindable(before, next)
		}
		if d, ok := next.(*kinds.Definition); ok && len(d.Status.StoredVersions) == 0 { // a manifest has none
			kinds.SetStatus(next, before.DeepCopyObject())
		}
		special.Of(next).Keep(everything, next, before)
	} else {
		next = mergeWrite(k, subresource, before, next)
		m = kinds.MetaOf(next)
		if err := special.Of(next).Check(subresource, next, before); err != nil {
			return nil, err
		}
	}
	if added := slices.DeleteFunc(slices.Clone(m.GetFinalizers()), func(f string) bool { return slices.Contains(was.GetFinalizers(), f) }); was.GetDeletionTimestamp() != nil && len(added) > 0 {
		return nil, apierrors.NewInvalid(k.GVK().GroupKind(), old.Key.Name, field.ErrorList{field.Forbidden(
			field.NewPath("metadata", "finalizers"), fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v", added))})
	}
	special.Of(next).Normalise(next)
	if subresource != "status" {
		if err := s.manage(k, next, before); err != nil {
			return nil, err
		}
	}
	m.SetUID(was.GetUID())
	m.SetResourceVersion(was.GetResourceVersion())
	m.SetCreationTimestamp(was.GetCreationTimestamp())
	m.SetDeletionTimestamp(was.GetDeletionTimestamp())
	m.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	m.SetSelfLink("")
	m.SetGeneration(was.GetGeneration())
	if k.HasGeneration() && !kinds.SameSpec(k, before, next) {
		m.SetGeneration(was.GetGeneration() + 1)
	}
	if err := k.Validate(next, validated, subresource); err != nil {
		return nil, err
	}
	ownership.KeepTimes(before, next)
	return k.ToStorage(next), nil
}
