package registry

import (
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The garbage collector has no goroutine: all effects of a write are applied before the
// response is sent. Each step scans every object, which is fast enough for the few thousand
// of a test and makes the order of events deterministic.
//
// Owner references may form cycles of any length, so nothing here recurses: a step changes
// objects and returns the writes it made, which processGC handles in order. Only writes
// that took a new version are queued and deletions are never undone, so the loop
// terminates.
//
// A write and the deletion of an owner may race. Both commit first and check afterwards,
// the writer its owners and the deletion its dependents, so one of them sees the other.

// gcItem is a committed write that the garbage collector has not processed yet.
type gcItem struct {
	kind    *kinds.Kind
	old     *kinds.Record // nil for a creation
	rec     *kinds.Record // state after the write; the last state for a deletion
	deleted bool
}

// processGC applies the effects of writes, including those of the writes it makes itself.
func (s *Registry) processGC(queue ...gcItem) {
	for len(queue) > 0 {
		c := queue[0]
		queue = append(queue[1:], s.processItem(c)...)
	}
}

// processItem applies the direct effects of one write and returns the writes it made.
func (s *Registry) processItem(c gcItem) (more []gcItem) {
	if c.deleted {
		return s.afterDelete(c.kind, c.rec)
	}
	if c.rec.Meta.GetDeletionTimestamp() != nil {
		more = append(more, s.processFinalizers(c.kind, c.rec)...)
	}
	if !s.CollectGarbage {
		return more
	}
	refs := c.rec.Meta.GetOwnerReferences()
	if len(refs) > 0 {
		more = append(more, s.checkOwners(c.kind, c.rec, "")...)
	}
	if c.old == nil {
		return more
	}
	for _, ref := range c.old.Meta.GetOwnerReferences() {
		if blocksOwner(ref) && !slices.ContainsFunc(refs, func(other metav1.OwnerReference) bool { return other.UID == ref.UID && blocksOwner(other) }) {
			more = append(more, s.releaseOwner(c.rec.Key.Namespace, ref)...)
		}
	}
	return more
}

// afterDelete handles the dependents, owners and namespace of a deleted object.
func (s *Registry) afterDelete(k *kinds.Kind, rec *kinds.Record) (more []gcItem) {
	if k == s.definitions {
		plural, group, _ := strings.Cut(rec.Key.Name, ".")
		more = append(s.undefine(group, plural), s.releaseNames(group)...)
	}
	if s.CollectGarbage {
		for _, d := range s.dependents(rec.Meta.GetUID()) {
			more = append(more, s.checkOwners(d.kind, d.rec, rec.Meta.GetUID())...)
		}
		for _, ref := range rec.Meta.GetOwnerReferences() {
			more = append(more, s.releaseOwner(rec.Key.Namespace, ref)...)
		}
	}
	if !k.Typed {
		more = append(more, s.releaseDefinition(k.String())...)
	}
	return append(more, s.releaseNamespace(rec.Key.Namespace)...)
}

// dependent is an object with an owner reference.
type dependent struct {
	kind *kinds.Kind
	rec  *kinds.Record
}

func (s *Registry) dependents(owner types.UID) (found []dependent) {
	for _, k := range s.Catalog.StorageKinds() {
		for _, rec := range s.Storage.All(k, "") {
			if slices.ContainsFunc(rec.Meta.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }) {
				found = append(found, dependent{k, rec})
			}
		}
	}
	return found
}

// blocksOwner reports whether the reference blocks a foreground deletion of the owner.
func blocksOwner(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// inForegroundDeletion reports whether the object is deleted once its dependents are.
func inForegroundDeletion(rec *kinds.Record) bool {
	return rec.Meta.GetDeletionTimestamp() != nil && slices.Contains(rec.Meta.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// checkOwners deletes an object that has no owners left or whose owner is in foreground
// deletion. If some owners remain, it removes only the dangling references. removed is the
// UID of an owner that was just deleted, if any.
func (s *Registry) checkOwners(k *kinds.Kind, seen *kinds.Record, removed types.UID) []gcItem {
	rec := s.Storage.Get(k, seen.Key)
	if rec == nil || rec.Meta.GetUID() != seen.Meta.GetUID() {
		return nil
	}
	var stays, waiting bool
	var lost []types.UID
	for _, ref := range rec.Meta.GetOwnerReferences() {
		owner, known := s.owner(k, rec.Key.Namespace, ref)
		switch {
		case ref.UID == removed:
			lost = append(lost, ref.UID)
		case !known:
			return nil // the owner's existence is unknown
		case owner.rec == nil:
			lost = append(lost, ref.UID)
		case inForegroundDeletion(owner.rec):
			lost = append(lost, ref.UID)
			waiting = true
		default:
			stays = true
		}
	}
	switch {
	case len(lost) == 0:
		return nil
	case stays:
		return s.removeOwners(k, rec.Key, lost...)
	}
	opts := new(metav1.DeleteOptions)
	if waiting && len(s.dependents(rec.Meta.GetUID())) > 0 {
		foreground := metav1.DeletePropagationForeground
		opts.PropagationPolicy = &foreground
	}
	// An error means that a concurrent request got there first.
	_, _, more, _ := s.deleteOne(k, rec, opts)
	return more
}

// owner looks up the object that an owner reference of a k object names. known is false if
// its kind is not served, or if a cluster-scoped object names a namespaced owner.
func (s *Registry) owner(k *kinds.Kind, namespace string, ref metav1.OwnerReference) (owner dependent, known bool) {
	owner.kind = s.Catalog.Owner(ref.APIVersion, ref.Kind)
	if owner.kind == nil || owner.kind.Namespaced && !k.Namespaced {
		return owner, false
	}
	key := object.Key{Name: ref.Name}
	if owner.kind.Namespaced {
		key.Namespace = namespace
	}
	if rec := s.Storage.Get(owner.kind, key); rec != nil && rec.Meta.GetUID() == ref.UID {
		owner.rec = rec
	}
	return owner, true
}

// processFinalizers acts on the garbage collector's finalizers of a terminating object.
func (s *Registry) processFinalizers(k *kinds.Kind, rec *kinds.Record) (more []gcItem) {
	has := func(f string) bool { return slices.Contains(rec.Meta.GetFinalizers(), f) }
	if k == s.namespaces {
		more = append(more, s.releaseNamespace(rec.Key.Name)...)
	}
	if k == s.definitions && has(instancesFinalizer) {
		more = append(more, s.deleteInstances(rec)...)
	}
	if !s.CollectGarbage {
		return more
	}
	uid := rec.Meta.GetUID()
	if has(metav1.FinalizerOrphanDependents) {
		for _, d := range s.dependents(uid) {
			more = append(more, s.removeOwners(d.kind, d.rec.Key, uid)...)
		}
		more = append(more, s.removeFinalizer(k, rec.Key, metav1.FinalizerOrphanDependents)...)
	}
	if has(metav1.FinalizerDeleteDependents) {
		for _, d := range s.dependents(uid) {
			more = append(more, s.checkOwners(d.kind, d.rec, "")...)
		}
		more = append(more, s.releaseForeground(k, rec)...)
	}
	return more
}

// releaseOwner finishes the foreground deletion of an owner if nothing blocks it any more.
func (s *Registry) releaseOwner(namespace string, ref metav1.OwnerReference) []gcItem {
	k := s.Catalog.Owner(ref.APIVersion, ref.Kind)
	if k == nil {
		return nil
	}
	key := object.Key{Name: ref.Name}
	if k.Namespaced {
		key.Namespace = namespace
	}
	if rec := s.Storage.Get(k, key); rec != nil && rec.Meta.GetUID() == ref.UID && inForegroundDeletion(rec) {
		return s.releaseForeground(k, rec)
	}
	return nil
}

// releaseForeground removes the foreground finalizer once no dependent blocks the object.
// Dependents that themselves wait for the object, in a cycle, do not block it.
func (s *Registry) releaseForeground(k *kinds.Kind, rec *kinds.Record) []gcItem {
	uid := rec.Meta.GetUID()
	var blocking []types.UID
	for _, d := range s.dependents(uid) {
		if !slices.ContainsFunc(d.rec.Meta.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid && blocksOwner(ref) }) {
			continue
		}
		if !inForegroundDeletion(d.rec) {
			return nil
		}
		blocking = append(blocking, d.rec.Meta.GetUID())
	}
	if len(blocking) > 0 {
		cycle := s.waitingFor(uid)
		if slices.ContainsFunc(blocking, func(d types.UID) bool { return !cycle[d] }) {
			return nil
		}
	}
	return s.removeFinalizer(k, rec.Key, metav1.FinalizerDeleteDependents)
}

// waitingFor returns the objects whose foreground deletion waits for the object, directly
// or transitively.
func (s *Registry) waitingFor(uid types.UID) map[types.UID]bool {
	owners := map[types.UID][]types.UID{} // by the UID of the object that blocks them
	waiting := map[types.UID]bool{}
	for _, k := range s.Catalog.StorageKinds() {
		for _, rec := range s.Storage.All(k, "") {
			id := rec.Meta.GetUID()
			waiting[id] = inForegroundDeletion(rec)
			for _, ref := range rec.Meta.GetOwnerReferences() {
				if blocksOwner(ref) {
					owners[id] = append(owners[id], ref.UID)
				}
			}
		}
	}
	found := map[types.UID]bool{}
	for next := []types.UID{uid}; len(next) > 0; {
		id := next[0]
		next = next[1:]
		for _, owner := range owners[id] {
			if waiting[owner] && !found[owner] {
				found[owner] = true
				next = append(next, owner)
			}
		}
	}
	return found
}

// removeFinalizer removes a finalizer and deletes the object if it was the last one.
func (s *Registry) removeFinalizer(k *kinds.Kind, key object.Key, finalizer string) []gcItem {
	return s.updateMeta(k, key, func(m metav1.Object) bool {
		before := m.GetFinalizers()
		after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
		m.SetFinalizers(after)
		return len(after) < len(before)
	})
}

// removeOwners removes owner references from a dependent.
func (s *Registry) removeOwners(k *kinds.Kind, key object.Key, owners ...types.UID) []gcItem {
	return s.updateMeta(k, key, func(m metav1.Object) bool {
		before := m.GetOwnerReferences()
		after := slices.DeleteFunc(slices.Clone(before), func(ref metav1.OwnerReference) bool { return slices.Contains(owners, ref.UID) })
		m.SetOwnerReferences(after)
		return len(after) < len(before)
	})
}

// updateMeta is updateObject for an object's metadata.
func (s *Registry) updateMeta(k *kinds.Kind, key object.Key, change func(metav1.Object) bool) []gcItem {
	return s.updateObject(k, key, func(obj runtime.Object) bool { return change(kinds.MetaOf(obj)) })
}

// updateObject changes an object, retrying on conflict. change returns false if there is
// nothing to do.
func (s *Registry) updateObject(k *kinds.Kind, key object.Key, change func(runtime.Object) bool) []gcItem {
	for {
		old := s.Storage.Get(k, key)
		if old == nil {
			return nil
		}
		next := old.Obj.DeepCopyObject()
		if !change(next) {
			return nil
		}
		if _, ok, more, err := s.storeOne(k, old, next); ok || err != nil {
			return more
		}
	}
}

// content returns the objects in a namespace.
func (s *Registry) content(namespace string) (found []dependent) {
	for _, k := range s.Catalog.StorageKinds() {
		if k.Namespaced {
			for _, rec := range s.Storage.All(k, namespace) {
				found = append(found, dependent{k, rec})
			}
		}
	}
	return found
}

// deleteContent deletes the pods in a namespace, without a grace period since there is no kubelet, and
// once none remain, everything else. It returns what remains.
func (s *Registry) deleteContent(namespace string) (more []gcItem, remaining []dependent) {
	var atOnce int64
	for _, pods := range []bool{true, false} {
		remaining = s.content(namespace)
		if !pods && hasPods(remaining) {
			break
		}
		for _, o := range remaining {
			if (o.kind.String() == "pods") == pods && !terminated(o.rec.Meta) {
				_, _, then, _ := s.deleteOne(o.kind, o.rec, &metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
				more = append(more, then...)
			}
		}
	}
	if len(more) > 0 {
		remaining = s.content(namespace)
	}
	return more, remaining
}

// releaseNamespace deletes the content of a terminating namespace, sets its conditions and, once it is
// empty, removes the server's finalizer from its spec. Without other finalizers, that removes the namespace.
func (s *Registry) releaseNamespace(name string) []gcItem {
	if name == "" || s.KeepNamespaces {
		return nil
	}
	ns := s.Storage.Get(s.namespaces, object.Key{Name: name})
	if ns == nil || ns.Meta.GetDeletionTimestamp() == nil || !slices.Contains(ns.Obj.(*corev1.Namespace).Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil
	}
	more, remaining := s.deleteContent(name)
	return append(more, s.updateObject(s.namespaces, ns.Key, func(obj runtime.Object) bool {
		ns := obj.(*corev1.Namespace)
		changed := setNamespaceConditions(ns, remaining)
		if len(remaining) > 0 {
			return changed
		}
		before := len(ns.Spec.Finalizers)
		ns.Spec.Finalizers = slices.DeleteFunc(slices.Clone(ns.Spec.Finalizers), func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return len(ns.Spec.Finalizers) < before
	})...)
}
