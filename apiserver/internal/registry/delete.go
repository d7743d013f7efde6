package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/special"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// immortal lists the namespaces that clients cannot delete.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// admitDelete checks the deletion of an object and calls the webhooks for it.
func (s *Registry) admitDelete(w http.ResponseWriter, r *request.Request, old *kinds.Record, opts *metav1.DeleteOptions) error {
	if err := checkPreconditions(r.Kind, old, opts.Preconditions); err != nil {
		return err
	}
	if r.Kind.Storage == s.namespaces && slices.Contains(immortal, old.Key.Name) {
		return apierrors.NewForbidden(r.Kind.GVR().GroupResource(), old.Key.Name, errors.New("this namespace may not be deleted"))
	}
	return s.Webhooks.AdmitDelete(w, r, old, opts)
}

// ServeDelete serves a delete.
func (s *Registry) ServeDelete(w http.ResponseWriter, r *request.Request) error {
	opts, err := s.deleteOptions(r)
	if err != nil {
		return err
	}
	old := s.Storage.Get(r.Kind, r.Key())
	if old == nil {
		return kinds.NotFound(r.Kind, r.Name)
	}
	if err := s.admitDelete(w, r, old, opts); err != nil {
		return err
	}
	rec, removed, err := s.delete(r.Kind, old, opts)
	switch {
	case err != nil:
		return err
	case removed && !(r.Kind.Typed && kinds.ReturnedDeleted[r.Kind.Kind]):
		s.Out.Deleted(w, r, old)
		return nil
	}
	return s.Out.Record(w, r, http.StatusOK, rec)
}

// ServeDeleteCollection deletes the objects that the list options select and returns them.
func (s *Registry) ServeDeleteCollection(w http.ResponseWriter, r *request.Request) error {
	opts, err := s.deleteOptions(r)
	if err != nil {
		return err
	}
	list, sel, err := r.ListOptions(s.Features)
	if err != nil {
		return err
	}
	p, err := s.Storage.List(r.Context(), r.Kind, sel, list)
	if err != nil {
		return err
	}
	for _, rec := range p.Records {
		if err := s.admitDelete(w, r, rec, opts); err != nil {
			return err
		}
		if _, _, err := s.delete(r.Kind, rec, opts); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	switch r.Rep.As {
	case "":
		obj, err := codec.ListOf(r.Kind, p)
		if err != nil {
			return err
		}
		s.Out.Object(w, r.Request, r.Rep, http.StatusOK, obj)
	default:
		s.Out.Deleted(w, r, nil)
	}
	return nil
}

// deleteOptions reads DeleteOptions from the body or, if that is empty, the query.
func (s *Registry) deleteOptions(r *request.Request) (*metav1.DeleteOptions, error) {
	opts := new(metav1.DeleteOptions)
	raw, err := request.ReadBody(r.Request)
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 {
		// Clients send them in the resource's own group; the content is the same in all.
		gvk := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
		obj, _, err := s.Codecs.Decode.Decode(raw, &gvk, nil)
		if decoded, ok := obj.(*metav1.DeleteOptions); ok && err == nil {
			opts = decoded
		} else if json.Unmarshal(raw, opts) != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		} else if opts.Kind != "" && opts.Kind != "DeleteOptions" {
			return nil, apierrors.NewBadRequest(runtime.NewNotRegisteredErrForKind("pkg/runtime/scheme.go:111", opts.GroupVersionKind()).Error())
		}
	} else if err := deleteQuery(r.URL.Query(), opts); err != nil {
		return nil, err
	}
	if opts.DryRun == nil {
		opts.DryRun = r.URL.Query()["dryRun"]
	}
	return opts, request.InvalidOptions("DeleteOptions", validation.ValidateDeleteOptions(opts))
}

func deleteQuery(query url.Values, into *metav1.DeleteOptions) error {
	if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, into, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// delete deletes an object, or marks it for deletion if it has finalizers or a grace
// period, and runs the garbage collector. seen is the record that the caller read; only its
// UID must still match.
func (s *Registry) delete(k *kinds.Kind, seen *kinds.Record, opts *metav1.DeleteOptions) (rec *kinds.Record, removed bool, err error) {
	rec, removed, more, err := s.deleteOne(k, seen, opts)
	s.processGC(more...)
	if err == nil && !removed && len(opts.DryRun) == 0 {
		removed = s.Storage.Get(k, rec.Key) == nil // the garbage collector may have removed it
	}
	return rec, removed, err
}

// deleteOne is delete without garbage collection. It returns the writes to process. Pods are
// marked before they are removed, as on the real server, so that watches see both.
func (s *Registry) deleteOne(k *kinds.Kind, seen *kinds.Record, opts *metav1.DeleteOptions) (rec *kinds.Record, removed bool, more []gcItem, err error) {
	return s.markOrRemove(k, seen, opts, special.Of(seen.Obj).MarkedFirst())
}

// betweenWrites is the time between the marking and the removal of a pod with
// Options.NoControllers. In kube-apiserver these are two writes to etcd. Controllers that read a marked pod from their
// caches rely on the time between them.
const betweenWrites = 10 * time.Millisecond

// markOrRemove is deleteOne for any kind. With markFirst, it marks an object before it
// removes it.
func (s *Registry) markOrRemove(k *kinds.Kind, seen *kinds.Record, opts *metav1.DeleteOptions, markFirst bool) (rec *kinds.Record, removed bool, more []gcItem, err error) {
	var terminating *kinds.Record // as marked here
	for {
		old := s.Storage.Get(k, seen.Key)
		if gone := old == nil || old.Meta.GetUID() != seen.Meta.GetUID(); gone && terminating != nil {
			return terminating, true, nil, nil // another write removed it
		} else if gone {
			return nil, false, nil, kinds.NotFound(k, seen.Key.Name)
		}
		if err := checkPreconditions(k, old, opts.Preconditions); err != nil {
			return nil, false, nil, err
		}
		finalizers := s.finalizersFor(k, old, opts)
		rules := special.Of(old.Obj)
		grace := rules.GracePeriod(old.Obj, opts)
		remove := len(finalizers) == 0 && grace == 0 && !rules.StaysMarked(old.Obj)
		if len(opts.DryRun) > 0 {
			if remove && !markFirst {
				return old, true, nil, nil
			}
			return kinds.NewUnstored(s.marked(k, old, finalizers, grace)), remove, nil, nil
		}
		if markFirst && remove && !terminated(old.Meta) {
			last, ok := s.mark(k, old, nil, 0)
			if !ok {
				continue
			}
			old, terminating = last, last
			if s.NoControllers {
				time.Sleep(betweenWrites)
			}
		}
		if remove {
			if rec, ok := s.Storage.Commit(k, old.Key, old, nil); ok {
				return rec, true, []gcItem{{kind: k, old: old, rec: rec, deleted: true}}, nil
			}
			continue
		}
		rec, ok := s.mark(k, old, finalizers, grace)
		if !ok {
			continue
		}
		if rec != old {
			more = []gcItem{{kind: k, old: old, rec: rec}}
		}
		return rec, false, more, nil
	}
}

// terminated reports whether an object is marked for deletion without a grace period.
func terminated(m metav1.Object) bool { return m.GetDeletionTimestamp() != nil && graceless(m) }

// mark marks an object for deletion.
func (s *Registry) mark(k *kinds.Kind, old *kinds.Record, finalizers []string, grace int64) (*kinds.Record, bool) {
	return s.Storage.Commit(k, old.Key, old, s.marked(k, old, finalizers, grace))
}

// marked returns a copy of an object with deletion timestamp, finalizers and grace period. It
// keeps an earlier timestamp.
func (s *Registry) marked(k *kinds.Kind, old *kinds.Record, finalizers []string, grace int64) runtime.Object {
	next := old.Obj.DeepCopyObject()
	m := kinds.MetaOf(next)
	m.SetFinalizers(finalizers)
	if before := m.GetDeletionGracePeriodSeconds(); m.GetDeletionTimestamp() == nil || before != nil && grace < *before {
		at := metav1.Time{Time: kinds.Now().Add(time.Duration(grace) * time.Second)}
		if m.GetGeneration() > 0 && m.GetDeletionTimestamp() == nil {
			m.SetGeneration(m.GetGeneration() + 1)
		}
		m.SetDeletionTimestamp(&at)
		m.SetDeletionGracePeriodSeconds(&grace)
	}
	special.Of(next).Mark(next)
	if d, ok := next.(*kinds.Definition); ok && slices.Contains(finalizers, instancesFinalizer) && old.Meta.GetDeletionTimestamp() == nil {
		// The real server marks definitions in code of their own.
		m.SetGeneration(old.Meta.GetGeneration())
		m.SetDeletionGracePeriodSeconds(nil)
		kinds.SetCondition(d, apiextensionsv1.Terminating, true, "InstanceDeletionPending", "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon", kinds.Now())
	}
	return next
}

func checkPreconditions(k *kinds.Kind, rec *kinds.Record, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if _, ok := rec.Obj.(*corev1.Namespace); ok { // the real server checks them in code of its own
		if uid := rec.Meta.GetUID(); p.UID != nil && *p.UID != uid {
			return kinds.UpdatePreconditionFailed(k, rec.Key, "UID", string(*p.UID), string(uid))
		}
		if v := rec.Meta.GetResourceVersion(); p.ResourceVersion != nil && *p.ResourceVersion != v {
			return kinds.UpdatePreconditionFailed(k, rec.Key, "ResourceVersion", *p.ResourceVersion, v)
		}
		return nil
	}
	if uid := rec.Meta.GetUID(); p.UID != nil && *p.UID != uid {
		return deletePreconditionFailed(k, rec, "the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, uid)
	}
	if v := rec.Meta.GetResourceVersion(); p.ResourceVersion != nil && *p.ResourceVersion != v {
		return deletePreconditionFailed(k, rec, "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, v)
	}
	return nil
}

// deletePreconditionFailed returns the conflict error for a deletion. The real server names
// the kind here, not the resource.
func deletePreconditionFailed(k *kinds.Kind, rec *kinds.Record, format string, args ...any) error {
	return apierrors.NewConflict(schema.GroupResource{Group: k.Group, Resource: k.Kind}, rec.Key.Name, fmt.Errorf(format, args...))
}

// finalizersFor returns the object's finalizers plus those that its deletion needs. A
// definition is always marked before it is removed, so that no instances are created while
// they are deleted. With Options.Strict or NoControllers, propagation policies add their
// finalizers even without a garbage collector that would remove them.
func (s *Registry) finalizersFor(k *kinds.Kind, old *kinds.Record, opts *metav1.DeleteOptions) []string {
	finalizers := slices.Clone(old.Meta.GetFinalizers())
	if k == s.definitions && (old.Meta.GetDeletionTimestamp() == nil || s.hasInstances(old.Key.Name)) {
		finalizers = with(finalizers, instancesFinalizer)
	}
	if !s.CollectGarbage && !s.Strict && !s.NoControllers || opts.PropagationPolicy == nil {
		return finalizers
	}
	switch *opts.PropagationPolicy {
	case metav1.DeletePropagationForeground:
		return with(finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		return with(finalizers, metav1.FinalizerOrphanDependents)
	}
	return finalizers
}

func with(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
