package admission

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/patch"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Admission checks and changes what a client writes. A nil admission is for the server's own
// writes and does nothing. It holds no lock while a webhook runs.
type Admission struct {
	hooks   *Webhooks
	w       http.ResponseWriter // for warnings
	Request *request.Request
	Own     *kinds.Kind           // of the objects of a subresource that has its own kind
	delete  *metav1.DeleteOptions // of a deletion
}

// Admit returns the admission of a write.
func (h *Webhooks) Admit(w http.ResponseWriter, r *request.Request) *Admission {
	return &Admission{hooks: h, w: w, Request: r}
}

// AdmitSubresource returns the admission for a subresource whose objects are of a kind of
// their own.
func (h *Webhooks) AdmitSubresource(w http.ResponseWriter, r *request.Request, own *kinds.Kind) *Admission {
	return &Admission{hooks: h, w: w, Request: r, Own: own}
}

// AdmitDelete calls the webhooks for a deletion.
func (h *Webhooks) AdmitDelete(w http.ResponseWriter, r *request.Request, old *kinds.Record, opts *metav1.DeleteOptions) error {
	a := &Admission{hooks: h, w: w, Request: r, delete: opts}
	if _, err := a.mutate(old, nil); err != nil {
		return err
	}
	return a.Check(old, nil)
}

// kindOf returns the kind of the objects of a request for version k of a resource.
func (a *Admission) kindOf(k *kinds.Kind) *kinds.Kind { return cmp.Or(a.Own, k) }

// Change returns the object that is to be validated and stored instead of obj, which it may
// modify: the result of the mutating webhooks. old is nil for a new object.
func (a *Admission) Change(old *kinds.Record, obj runtime.Object) (runtime.Object, error) {
	if a == nil {
		return obj, nil
	}
	namespace, owners := kinds.MetaOf(obj).GetNamespace(), kinds.MetaOf(obj).GetManagedFields()
	obj, err := a.mutate(old, obj)
	if err != nil {
		return nil, err
	}
	if err := managedfields.ValidateManagedFields(kinds.MetaOf(obj).GetManagedFields()); err != nil {
		kinds.MetaOf(obj).SetManagedFields(owners)
		request.AddWarning(a.w, fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
	}
	if m := kinds.MetaOf(obj); m.GetNamespace() != namespace || old != nil && m.GetName() != old.Key.Name {
		return nil, apierrors.NewBadRequest("an admission webhook changed the name or namespace of the object")
	}
	return obj, a.hooks.Access.CheckEscalation(access.UserOf(a.Request.Context()), a.Request.Kind, a.Request.Key(), old, obj)
}

// mutate calls the mutating webhooks one after the other. Those that ask for it are called
// again if a later one changed the object.
func (a *Admission) mutate(old *kinds.Record, obj runtime.Object) (runtime.Object, error) {
	hooks, _ := a.hooks.compiled()
	var called, again []*webhook
	call := func(h *webhook) error {
		k := a.matching(h, old, obj)
		if k == nil {
			return nil
		}
		response, err := a.call(h, k, old, obj)
		if err != nil || response == nil {
			return err
		}
		next, err := a.patched(h, k, obj, response.Patch)
		if err != nil {
			return err
		}
		if next != nil && !equality.Semantic.DeepEqual(obj, next) {
			obj = next
			again = append(again, called...)
		}
		if p := h.ReinvocationPolicy; p != nil && *p == admissionregistrationv1.IfNeededReinvocationPolicy {
			called = append(called, h)
		}
		return nil
	}
	for _, h := range hooks {
		if err := call(h); err != nil {
			return nil, err
		}
	}
	repeat := again
	for _, h := range hooks {
		if slices.Contains(repeat, h) {
			if err := call(h); err != nil {
				return nil, err
			}
		}
	}
	return obj, nil
}

// patched returns the result of a webhook's patch, or nil if it has none.
func (a *Admission) patched(h *webhook, k *kinds.Kind, obj runtime.Object, patch []byte) (runtime.Object, error) {
	if len(patch) == 0 {
		return nil, nil
	}
	ops, err := jsonpatch.DecodePatch(patch)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case len(ops) == 0:
		return nil, nil
	case obj == nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	}
	next, err := a.apply(a.kindOf(k), obj, ops)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if k != a.Request.Kind && a.Own == nil {
		next = a.Request.Kind.Present(kinds.NewUnstored(next))
	}
	return next, nil
}

// apply applies a JSON patch to an object in the version of k.
func (a *Admission) apply(k *kinds.Kind, obj runtime.Object, ops jsonpatch.Patch) (runtime.Object, error) {
	before, err := a.encode(k, obj)
	if err != nil {
		return nil, err
	}
	after, err := patch.ApplyOperations(ops, before)
	if err != nil {
		return nil, err
	}
	return a.hooks.Codecs.Parse(k, after)
}

// encode returns an object in JSON, in the version of a kind.
func (a *Admission) encode(k *kinds.Kind, obj runtime.Object) ([]byte, error) {
	return a.hooks.Codecs.Record(k, kinds.JSON, kinds.NewUnstored(obj))
}

// Check calls the validating webhooks, all at the same time. obj is the object that is to be
// stored, or nil for a deletion.
func (a *Admission) Check(old *kinds.Record, obj runtime.Object) error {
	if a == nil {
		return nil
	}
	_, hooks := a.hooks.compiled()
	var results []chan error
	for _, h := range hooks {
		k := a.matching(h, old, obj)
		if k == nil {
			continue
		}
		result := make(chan error, 1)
		results = append(results, result)
		own := obj // encoding writes to it
		if obj != nil {
			own = obj.DeepCopyObject()
		}
		a.hooks.Go(func() {
			_, err := a.call(h, k, old, own)
			result <- err
		})
	}
	var first error
	for _, result := range results {
		if err := <-result; first == nil {
			first = err
		}
	}
	return first
}

// request returns what a webhook is asked, in the version of k.
func (a *Admission) request(k *kinds.Kind, old *kinds.Record, obj runtime.Object) (*admissionv1.AdmissionRequest, error) {
	r := a.Request
	asked, requested := metav1.GroupVersionKind(a.kindOf(k).GVK()), metav1.GroupVersionKind(a.kindOf(r.Kind).GVK())
	resource, requestedResource := metav1.GroupVersionResource(k.GVR()), metav1.GroupVersionResource(r.Kind.GVR())
	dry := r.DryRun() || a.delete != nil && len(a.delete.DryRun) > 0
	req := &admissionv1.AdmissionRequest{
		UID: types.UID(a.hooks.NewUID()), Kind: asked, Resource: resource, SubResource: r.Subresource,
		RequestKind: &requested, RequestResource: &requestedResource, RequestSubResource: r.Subresource,
		Name: r.Name, Namespace: r.Namespace, Operation: a.operation(old), UserInfo: *access.UserOf(r.Context()), DryRun: &dry,
	}
	if req.Name == "" && obj != nil {
		req.Name = kinds.MetaOf(obj).GetName()
	}
	if r.Kind.Storage == a.hooks.namespaces {
		req.Namespace = req.Name
	}
	var err error
	if obj != nil {
		if req.Object.Raw, err = a.encode(a.kindOf(k), obj); err != nil {
			return nil, err
		}
	}
	if old != nil {
		if req.OldObject.Raw, err = a.hooks.Codecs.Record(a.kindOf(k), kinds.JSON, old); err != nil {
			return nil, err
		}
	}
	req.Options.Raw, err = a.options(old == nil)
	return req, err
}

func (a *Admission) operation(old *kinds.Record) admissionv1.Operation {
	switch {
	case a.delete != nil:
		return admissionv1.Delete
	case old == nil:
		return admissionv1.Create
	}
	return admissionv1.Update
}

// options returns the options of the request in JSON. Those of a patch are shown as of a
// create or an update.
func (a *Admission) options(create bool) ([]byte, error) {
	query := a.Request.URL.Query()
	var obj runtime.Object
	var err error
	kind := "DeleteOptions"
	switch {
	case a.delete != nil:
		obj = a.delete.DeepCopy()
	case create:
		opts := new(metav1.CreateOptions)
		kind, obj, err = "CreateOptions", opts, metav1.Convert_url_Values_To_v1_CreateOptions(&query, opts, nil)
	default:
		opts := new(metav1.UpdateOptions)
		kind, obj, err = "UpdateOptions", opts, metav1.Convert_url_Values_To_v1_UpdateOptions(&query, opts, nil)
	}
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
	return a.hooks.Codecs.Encode(codec.Representation{}, obj)
}

// Warn adds the warnings about a valid object of a built-in kind, with Options.Strict. old is
// nil for a new object.
func (a *Admission) Warn(k *kinds.Kind, obj, old runtime.Object) {
	if a == nil || !k.Strict {
		return
	}
	for _, text := range builtin.Warnings(obj, old) {
		request.AddWarning(a.w, text)
	}
}
