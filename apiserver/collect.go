package apiserver

import (
	"slices"

	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// contentFinalizer keeps a namespace that is being deleted while there is something in
// it. The real server keeps such a mark in the namespace's spec.
const contentFinalizer = "kubernetes"

// The collector has no goroutine and no queue: what follows from a deletion happens
// before the deletion is answered. It looks at every object for each, which is what a
// test's few thousand allow, and makes the order of events the same in every run.

// removed does what follows from the removal of an object.
func (s *Server) removed(k *kind, gone *record) {
	if k == s.definitions {
		if d, err := parseDefinition(gone.obj); err == nil {
			s.Undefine(d.Group, d.Resource.Resource)
		}
	}
	if k.home == s.namespaces {
		return // what was in it went before
	}
	if s.opts.CollectGarbage {
		s.collect(gone.meta.GetUID())
		for _, ref := range gone.meta.GetOwnerReferences() {
			s.releaseOwner(gone.key.Namespace, ref)
		}
	}
	s.releaseNamespace(gone.key.Namespace)
}

// dependent is an object that names an owner.
type dependent struct {
	kind *kind
	rec  *record
}

func (s *Server) dependents(owner types.UID) (found []dependent) {
	for _, k := range s.catalog.homes() {
		for _, rec := range s.storage.all(k, "") {
			if slices.ContainsFunc(rec.meta.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }) {
				found = append(found, dependent{k, rec})
			}
		}
	}
	return found
}

// collect deletes the dependents of an object that is gone.
func (s *Server) collect(owner types.UID) {
	for _, d := range s.dependents(owner) {
		s.forsake(d, owner, &metav1.DeleteOptions{})
	}
}

// forsake deletes a dependent that loses an owner. If another owner lives, it only
// forgets the one that goes.
func (s *Server) forsake(d dependent, owner types.UID, opts *metav1.DeleteOptions) {
	if slices.ContainsFunc(d.rec.meta.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID != owner && s.lives(d.rec.key.Namespace, ref)
	}) {
		s.disown(d, owner)
		return
	}
	// An error says that somebody else was faster.
	_, _, _ = s.delete(d.kind, d.rec, opts)
}

// owner finds the object that a reference names.
func (s *Server) owner(namespace string, ref metav1.OwnerReference) (*kind, *record) {
	k := s.catalog.owner(ref.APIVersion, ref.Kind)
	if k == nil {
		return nil, nil
	}
	key := object.Key{Name: ref.Name}
	if k.Namespaced {
		key.Namespace = namespace
	}
	if rec := s.storage.get(k, key); rec != nil && rec.meta.GetUID() == ref.UID {
		return k, rec
	}
	return nil, nil
}

func (s *Server) lives(namespace string, ref metav1.OwnerReference) bool {
	_, rec := s.owner(namespace, ref)
	return rec != nil
}

// settleDependents does what the finalizers of a marked object stand for.
func (s *Server) settleDependents(k *kind, rec *record) {
	has := func(f string) bool { return slices.Contains(rec.meta.GetFinalizers(), f) }
	if k.home == s.namespaces && has(contentFinalizer) {
		s.empty(rec.key.Name)
		s.releaseNamespace(rec.key.Name)
	}
	if !s.opts.CollectGarbage {
		return
	}
	uid := rec.meta.GetUID()
	if has(metav1.FinalizerOrphanDependents) {
		for _, d := range s.dependents(uid) {
			s.disown(d, uid)
		}
		s.release(k, rec.key, metav1.FinalizerOrphanDependents)
	}
	if has(metav1.FinalizerDeleteDependents) {
		foreground := metav1.DeletePropagationForeground
		for _, d := range s.dependents(uid) {
			s.forsake(d, uid, &metav1.DeleteOptions{PropagationPolicy: &foreground})
		}
		s.releaseForeground(k, rec)
	}
}

// releaseOwner lets an owner go that waits for its dependents.
func (s *Server) releaseOwner(namespace string, ref metav1.OwnerReference) {
	if k, rec := s.owner(namespace, ref); rec != nil && rec.meta.GetDeletionTimestamp() != nil {
		s.releaseForeground(k, rec)
	}
}

// releaseForeground lets an object go once none of its dependents blocks it.
func (s *Server) releaseForeground(k *kind, rec *record) {
	uid := rec.meta.GetUID()
	for _, d := range s.dependents(uid) {
		if slices.ContainsFunc(d.rec.meta.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == uid && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		}) {
			return
		}
	}
	s.release(k, rec.key, metav1.FinalizerDeleteDependents)
}

// release takes a finalizer away, after which the object may go.
func (s *Server) release(k *kind, key object.Key, finalizer string) {
	for {
		old := s.storage.get(k, key)
		if old == nil || !slices.Contains(old.meta.GetFinalizers(), finalizer) {
			return
		}
		next := old.obj.DeepCopyObject()
		metaOf(next).SetFinalizers(slices.DeleteFunc(metaOf(next).GetFinalizers(), func(f string) bool { return f == finalizer }))
		if _, ok, err := s.store(k, old, next); ok || err != nil {
			return
		}
	}
}

// disown takes an owner out of a dependent.
func (s *Server) disown(d dependent, owner types.UID) {
	for {
		old := s.storage.get(d.kind, d.rec.key)
		if old == nil {
			return
		}
		next := old.obj.DeepCopyObject()
		m := metaOf(next)
		m.SetOwnerReferences(slices.DeleteFunc(m.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }))
		if _, ok, err := s.store(d.kind, old, next); ok || err != nil {
			return
		}
	}
}

// inside calls do with every object of a namespace, until it returns false.
func (s *Server) inside(namespace string, do func(k *kind, rec *record) bool) {
	for _, k := range s.catalog.homes() {
		if !k.Namespaced {
			continue
		}
		for _, rec := range s.storage.all(k, namespace) {
			if !do(k, rec) {
				return
			}
		}
	}
}

// occupied reports whether there is anything in a namespace.
func (s *Server) occupied(namespace string) (yes bool) {
	s.inside(namespace, func(*kind, *record) bool {
		yes = true
		return false
	})
	return yes
}

// empty deletes everything in a namespace. There is no kubelet that would end its pods.
func (s *Server) empty(namespace string) {
	var atOnce int64
	s.inside(namespace, func(k *kind, rec *record) bool {
		_, _, _ = s.delete(k, rec, &metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
		return true
	})
}

// releaseNamespace lets a namespace go that waited for what was in it.
func (s *Server) releaseNamespace(name string) {
	if name == "" {
		return
	}
	ns := s.storage.get(s.namespaces, object.Key{Name: name})
	if ns != nil && ns.meta.GetDeletionTimestamp() != nil && !s.occupied(name) {
		s.release(s.namespaces, ns.key, contentFinalizer)
	}
}
