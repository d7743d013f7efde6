package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
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

// admission checks and changes what a client writes. A nil admission is for the server's own
// writes and does nothing. It holds no lock while a webhook runs.
type admission struct {
	server *Server
	w      http.ResponseWriter // for warnings
	r      *request.Request
	own    *kinds.Kind           // of the objects of a subresource that has its own kind
	delete *metav1.DeleteOptions // of a deletion
}

func (s *Server) admission(w http.ResponseWriter, r *request.Request) *admission {
	return &admission{server: s, w: w, r: r}
}

// subresourceAdmission returns the admission for a subresource whose objects are of a kind of
// their own.
func (s *Server) subresourceAdmission(w http.ResponseWriter, r *request.Request, own *kinds.Kind) *admission {
	return &admission{server: s, w: w, r: r, own: own}
}

// kindOf returns the kind of the objects of a request for version k of a resource.
func (a *admission) kindOf(k *kinds.Kind) *kinds.Kind { return cmp.Or(a.own, k) }

// immortal lists the namespaces that clients cannot delete.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// admitDelete checks the deletion of an object and calls the webhooks for it.
func (s *Server) admitDelete(w http.ResponseWriter, r *request.Request, old *kinds.Record, opts *metav1.DeleteOptions) error {
	if err := checkPreconditions(r.Kind, old, opts.Preconditions); err != nil {
		return err
	}
	if r.Kind.Storage == s.namespaces && slices.Contains(immortal, old.Key.Name) {
		return apierrors.NewForbidden(r.Kind.GVR().GroupResource(), old.Key.Name, errors.New("this namespace may not be deleted"))
	}
	a := &admission{server: s, w: w, r: r, delete: opts}
	if _, err := a.mutate(old, nil); err != nil {
		return err
	}
	return a.check(old, nil)
}

// change returns the object that is to be validated and stored instead of obj, which it may
// modify: the result of the mutating webhooks. old is nil for a new object.
func (a *admission) change(old *kinds.Record, obj runtime.Object) (runtime.Object, error) {
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
	return obj, a.server.access.CheckEscalation(access.UserOf(a.r.Context()), a.r.Kind, a.r.Key(), old, obj)
}

// mutate calls the mutating webhooks one after the other. Those that ask for it are called
// again if a later one changed the object.
func (a *admission) mutate(old *kinds.Record, obj runtime.Object) (runtime.Object, error) {
	hooks, _ := a.server.webhooks.compiled(a.server.storage)
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
func (a *admission) patched(h *webhook, k *kinds.Kind, obj runtime.Object, patch []byte) (runtime.Object, error) {
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
	if k != a.r.Kind && a.own == nil {
		next = a.r.Kind.Present(unstoredRecord(next))
	}
	return next, nil
}

// apply applies a JSON patch to an object in the version of k.
func (a *admission) apply(k *kinds.Kind, obj runtime.Object, ops jsonpatch.Patch) (runtime.Object, error) {
	before, err := a.encode(k, obj)
	if err != nil {
		return nil, err
	}
	after, err := applyOperations(ops, before)
	if err != nil {
		return nil, err
	}
	return a.server.codecs.Parse(k, after)
}

// encode returns an object in JSON, in the version of a kind.
func (a *admission) encode(k *kinds.Kind, obj runtime.Object) ([]byte, error) {
	return a.server.codecs.Record(k, kinds.JSON, unstoredRecord(obj))
}

// check calls the validating webhooks, all at the same time. obj is the object that is to be
// stored, or nil for a deletion.
func (a *admission) check(old *kinds.Record, obj runtime.Object) error {
	if a == nil {
		return nil
	}
	_, hooks := a.server.webhooks.compiled(a.server.storage)
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
		a.server.handlers.Go(func() {
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
func (a *admission) request(k *kinds.Kind, old *kinds.Record, obj runtime.Object) (*admissionv1.AdmissionRequest, error) {
	r := a.r
	asked, requested := metav1.GroupVersionKind(a.kindOf(k).GVK()), metav1.GroupVersionKind(a.kindOf(r.Kind).GVK())
	resource, requestedResource := metav1.GroupVersionResource(k.GVR()), metav1.GroupVersionResource(r.Kind.GVR())
	dry := r.DryRun() || a.delete != nil && len(a.delete.DryRun) > 0
	req := &admissionv1.AdmissionRequest{
		UID: types.UID(a.server.newUID()), Kind: asked, Resource: resource, SubResource: r.Subresource,
		RequestKind: &requested, RequestResource: &requestedResource, RequestSubResource: r.Subresource,
		Name: r.Name, Namespace: r.Namespace, Operation: a.operation(old), UserInfo: *access.UserOf(r.Context()), DryRun: &dry,
	}
	if req.Name == "" && obj != nil {
		req.Name = kinds.MetaOf(obj).GetName()
	}
	if r.Kind.Storage == a.server.namespaces {
		req.Namespace = req.Name
	}
	var err error
	if obj != nil {
		if req.Object.Raw, err = a.encode(a.kindOf(k), obj); err != nil {
			return nil, err
		}
	}
	if old != nil {
		if req.OldObject.Raw, err = a.server.codecs.Record(a.kindOf(k), kinds.JSON, old); err != nil {
			return nil, err
		}
	}
	req.Options.Raw, err = a.options(old == nil)
	return req, err
}

func (a *admission) operation(old *kinds.Record) admissionv1.Operation {
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
func (a *admission) options(create bool) ([]byte, error) {
	query := a.r.URL.Query()
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
	return a.server.codecs.Encode(codec.Representation{}, obj)
}
