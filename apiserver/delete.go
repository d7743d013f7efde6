package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (s *Server) serveDelete(w http.ResponseWriter, r *request) error {
	opts, err := s.deleteOptions(r)
	if err != nil {
		return err
	}
	old := s.storage.get(r.kind, r.key())
	if old == nil {
		return notFound(r.kind, r.name)
	}
	rec, removed, err := s.delete(r.kind, old, opts)
	switch {
	case err != nil:
		return err
	case removed && r.kind.Kind != "Pod":
		s.succeeded(w, r, old)
		return nil
	}
	return s.send(w, r, http.StatusOK, rec)
}

// serveDeleteCollection deletes what a list would show, and answers with it.
func (s *Server) serveDeleteCollection(w http.ResponseWriter, r *request) error {
	opts, err := s.deleteOptions(r)
	if err != nil {
		return err
	}
	list, sel, err := s.listOptions(r, r.URL.Query())
	if err != nil {
		return err
	}
	p, err := s.storage.list(r.Context(), r.kind, sel, list)
	if err != nil {
		return err
	}
	for _, rec := range p.records {
		if _, _, err := s.delete(r.kind, rec, opts); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	switch r.rep.as {
	case "":
		obj, err := r.kind.list(p)
		if err != nil {
			return err
		}
		s.answer(w, r.Request, r.rep, http.StatusOK, obj)
	default:
		s.succeeded(w, r, nil)
	}
	return nil
}

// deleteOptions reads the options from the body, or else from the query.
func (s *Server) deleteOptions(r *request) (*metav1.DeleteOptions, error) {
	opts := new(metav1.DeleteOptions)
	raw, err := readBody(r.Request)
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 {
		// Clients send them in the group of the resource; the content is always the same.
		gvk := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
		obj, _, err := s.codecs.decode.Decode(raw, &gvk, nil)
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
	return opts, invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(opts))
}

// deleteQuery reads options of a deletion from the query.
func deleteQuery(query url.Values, into *metav1.DeleteOptions) error {
	if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, into, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// delete removes an object, or marks it when finalizers or a grace period keep it, and
// does what follows from that. It begins with a record that the caller saw; only its
// UID must still be right.
func (s *Server) delete(k *kind, seen *record, opts *metav1.DeleteOptions) (rec *record, removed bool, err error) {
	rec, removed, more, err := s.deleteOne(k, seen, opts)
	s.settle(more...)
	if err == nil && !removed && len(opts.DryRun) == 0 {
		removed = s.storage.get(k, rec.key) == nil // for what followed
	}
	return rec, removed, err
}

// deleteOne is delete without what follows from it, which it returns.
func (s *Server) deleteOne(k *kind, seen *record, opts *metav1.DeleteOptions) (rec *record, removed bool, more []consequence, err error) {
	for {
		old := s.storage.get(k, seen.key)
		if old == nil || old.meta.GetUID() != seen.meta.GetUID() {
			return nil, false, nil, notFound(k, seen.key.Name)
		}
		if err := checkPreconditions(k, old, opts.Preconditions); err != nil {
			return nil, false, nil, err
		}
		finalizers := s.finalizersFor(old, opts)
		grace := gracePeriod(old.obj, opts)
		if len(opts.DryRun) > 0 {
			return old, len(finalizers) == 0 && grace == 0, nil, nil
		}
		if len(finalizers) == 0 && grace == 0 {
			if rec, ok := s.storage.commit(k, old.key, old, nil); ok {
				return rec, true, []consequence{{kind: k, old: old, rec: rec, gone: true}}, nil
			}
			continue
		}
		rec, ok := s.mark(k, old, finalizers, grace)
		if !ok {
			continue
		}
		if rec != old {
			more = []consequence{{kind: k, old: old, rec: rec}}
		}
		return rec, false, more, nil
	}
}

// mark notes that an object is to go, unless that is noted already.
func (s *Server) mark(k *kind, old *record, finalizers []string, grace int64) (*record, bool) {
	next := old.obj.DeepCopyObject()
	m := metaOf(next)
	m.SetFinalizers(finalizers)
	if before := m.GetDeletionGracePeriodSeconds(); m.GetDeletionTimestamp() == nil || before != nil && grace < *before {
		at := metav1.Time{Time: now().Add(time.Duration(grace) * time.Second)}
		m.SetDeletionTimestamp(&at)
		m.SetDeletionGracePeriodSeconds(&grace)
		if m.GetGeneration() > 0 {
			m.SetGeneration(m.GetGeneration() + 1)
		}
	}
	if ns, ok := next.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
	}
	return s.storage.commit(k, old.key, old, next)
}

func checkPreconditions(k *kind, rec *record, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if uid := rec.meta.GetUID(); p.UID != nil && *p.UID != uid {
		return outdated(k, rec, "the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, uid)
	}
	if v := rec.meta.GetResourceVersion(); p.ResourceVersion != nil && *p.ResourceVersion != v {
		return outdated(k, rec, "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, v)
	}
	return nil
}

// outdated is a precondition of a deletion that does not hold. The real server names the
// kind here, not the resource.
func outdated(k *kind, rec *record, format string, args ...any) error {
	return apierrors.NewConflict(schema.GroupResource{Group: k.Group, Resource: k.Kind}, rec.key.Name, fmt.Errorf(format, args...))
}

// gracePeriod is how long an object may still live. Only pods that run somewhere do.
func gracePeriod(obj runtime.Object, opts *metav1.DeleteOptions) int64 {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	if opts.GracePeriodSeconds != nil {
		return max(*opts.GracePeriodSeconds, 0)
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// finalizersFor adds those that the way of deletion asks for. A namespace is always marked
// before it is removed: nothing can be created in it any more while it is emptied.
func (s *Server) finalizersFor(old *record, opts *metav1.DeleteOptions) []string {
	finalizers := slices.Clone(old.meta.GetFinalizers())
	if _, ok := old.obj.(*corev1.Namespace); ok && (old.meta.GetDeletionTimestamp() == nil || s.occupied(old.key.Name)) {
		finalizers = with(finalizers, contentFinalizer)
	}
	if !s.opts.CollectGarbage || opts.PropagationPolicy == nil {
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
