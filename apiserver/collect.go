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

// The collector has no goroutine: what follows from a write happens before the write is
// answered. It looks at every object for each, which is what a test's few thousand allow,
// and makes the order of events the same in every run.
//
// Owner references may form cycles of any length, so nothing here recurses: a step
// changes objects and returns the consequences, which settle works off in order. A
// consequence exists only for a write that took a version, and deletions never undo
// each other, so that the work ends.
//
// A write and the deletion of an owner may race. Both commit first and look afterwards,
// the writer for its owners and the deletion for its dependents, so one of them sees the other.

// consequence is a committed write that the collector has not looked at yet.
type consequence struct {
	kind *kind
	old  *record // nil for a creation
	rec  *record // the state after the write; for a removal the last one
	gone bool    // the object was removed
}

// settle does what follows from a write, and from what it does.
func (s *Server) settle(queue ...consequence) {
	for len(queue) > 0 {
		c := queue[0]
		queue = append(queue[1:], s.follow(c)...)
	}
}

// follow does what follows from one write.
func (s *Server) follow(c consequence) (more []consequence) {
	if c.gone {
		return s.removed(c.kind, c.rec)
	}
	if c.rec.meta.GetDeletionTimestamp() != nil {
		more = append(more, s.settleDependents(c.kind, c.rec)...)
	}
	if !s.opts.CollectGarbage {
		return more
	}
	refs := c.rec.meta.GetOwnerReferences()
	if len(refs) > 0 {
		more = append(more, s.examine(c.kind, c.rec, "")...)
	}
	if c.old == nil {
		return more
	}
	for _, ref := range c.old.meta.GetOwnerReferences() {
		if blocks(ref) && !slices.ContainsFunc(refs, func(other metav1.OwnerReference) bool { return other.UID == ref.UID && blocks(other) }) {
			more = append(more, s.releaseOwner(c.rec.key.Namespace, ref)...)
		}
	}
	return more
}

// removed does what follows from the removal of an object.
func (s *Server) removed(k *kind, gone *record) (more []consequence) {
	if k == s.definitions {
		if d, err := parseDefinition(gone.obj); err == nil {
			more = append(more, s.undefine(d.Group, d.Resource.Resource)...)
		}
	}
	if s.opts.CollectGarbage {
		for _, d := range s.dependents(gone.meta.GetUID()) {
			more = append(more, s.examine(d.kind, d.rec, gone.meta.GetUID())...)
		}
		for _, ref := range gone.meta.GetOwnerReferences() {
			more = append(more, s.releaseOwner(gone.key.Namespace, ref)...)
		}
	}
	return append(more, s.releaseNamespace(gone.key.Namespace)...)
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

// blocks reports whether a foreground deletion of the owner waits for the dependent.
func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// waits reports whether an object is deleted once its dependents are.
func waits(rec *record) bool {
	return rec.meta.GetDeletionTimestamp() != nil && slices.Contains(rec.meta.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// examine deletes an object that has lost its owners, or is to be deleted before them. If
// one of them stays, the object only drops its references to the others. The UID is that
// of an owner that was just removed, if any.
func (s *Server) examine(k *kind, seen *record, removed types.UID) []consequence {
	rec := s.storage.get(k, seen.key)
	if rec == nil || rec.meta.GetUID() != seen.meta.GetUID() {
		return nil
	}
	var stays, waiting bool
	var lost []types.UID
	for _, ref := range rec.meta.GetOwnerReferences() {
		owner, known := s.owner(k, rec.key.Namespace, ref)
		switch {
		case ref.UID == removed:
			lost = append(lost, ref.UID)
		case !known:
			return nil // whether it exists cannot be found out here
		case owner.rec == nil:
			lost = append(lost, ref.UID)
		case waits(owner.rec):
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
		return s.disown(k, rec.key, lost...)
	}
	opts := new(metav1.DeleteOptions)
	if waiting && len(s.dependents(rec.meta.GetUID())) > 0 {
		foreground := metav1.DeletePropagationForeground
		opts.PropagationPolicy = &foreground
	}
	// An error says that another request was faster.
	_, _, more, _ := s.deleteOne(k, rec, opts)
	return more
}

// owner finds the object that a reference of an object of kind k names. It is not known
// whether there is one when its kind is not served, or when it would be in a namespace
// and the object is in none.
func (s *Server) owner(k *kind, namespace string, ref metav1.OwnerReference) (owner dependent, known bool) {
	owner.kind = s.catalog.owner(ref.APIVersion, ref.Kind)
	if owner.kind == nil || owner.kind.Namespaced && !k.Namespaced {
		return owner, false
	}
	key := object.Key{Name: ref.Name}
	if owner.kind.Namespaced {
		key.Namespace = namespace
	}
	if rec := s.storage.get(owner.kind, key); rec != nil && rec.meta.GetUID() == ref.UID {
		owner.rec = rec
	}
	return owner, true
}

// settleDependents does what the finalizers of a marked object stand for.
func (s *Server) settleDependents(k *kind, rec *record) (more []consequence) {
	has := func(f string) bool { return slices.Contains(rec.meta.GetFinalizers(), f) }
	if k.home == s.namespaces && has(contentFinalizer) {
		more = append(more, s.empty(rec.key.Name)...)
		more = append(more, s.releaseNamespace(rec.key.Name)...)
	}
	if !s.opts.CollectGarbage {
		return more
	}
	uid := rec.meta.GetUID()
	if has(metav1.FinalizerOrphanDependents) {
		for _, d := range s.dependents(uid) {
			more = append(more, s.disown(d.kind, d.rec.key, uid)...)
		}
		more = append(more, s.release(k, rec.key, metav1.FinalizerOrphanDependents)...)
	}
	if has(metav1.FinalizerDeleteDependents) {
		for _, d := range s.dependents(uid) {
			more = append(more, s.examine(d.kind, d.rec, "")...)
		}
		more = append(more, s.releaseForeground(k, rec)...)
	}
	return more
}

// releaseOwner lets an owner go that waits for its dependents.
func (s *Server) releaseOwner(namespace string, ref metav1.OwnerReference) []consequence {
	k := s.catalog.owner(ref.APIVersion, ref.Kind)
	if k == nil {
		return nil
	}
	key := object.Key{Name: ref.Name}
	if k.Namespaced {
		key.Namespace = namespace
	}
	if rec := s.storage.get(k, key); rec != nil && rec.meta.GetUID() == ref.UID && waits(rec) {
		return s.releaseForeground(k, rec)
	}
	return nil
}

// releaseForeground lets an object go once none of its dependents blocks it. Those that
// themselves wait for it, in a cycle, do not.
func (s *Server) releaseForeground(k *kind, rec *record) []consequence {
	uid := rec.meta.GetUID()
	var blocking []types.UID
	for _, d := range s.dependents(uid) {
		if !slices.ContainsFunc(d.rec.meta.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid && blocks(ref) }) {
			continue
		}
		if !waits(d.rec) {
			return nil
		}
		blocking = append(blocking, d.rec.meta.GetUID())
	}
	if len(blocking) > 0 {
		cycle := s.waitingFor(uid)
		if slices.ContainsFunc(blocking, func(d types.UID) bool { return !cycle[d] }) {
			return nil
		}
	}
	return s.release(k, rec.key, metav1.FinalizerDeleteDependents)
}

// waitingFor returns the objects whose foreground deletion waits for an object, directly
// or for one that waits for it in turn.
func (s *Server) waitingFor(uid types.UID) map[types.UID]bool {
	owners := map[types.UID][]types.UID{} // that an object blocks
	waiting := map[types.UID]bool{}
	for _, k := range s.catalog.homes() {
		for _, rec := range s.storage.all(k, "") {
			id := rec.meta.GetUID()
			waiting[id] = waits(rec)
			for _, ref := range rec.meta.GetOwnerReferences() {
				if blocks(ref) {
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

// release takes a finalizer away, after which the object may go.
func (s *Server) release(k *kind, key object.Key, finalizer string) []consequence {
	return s.amend(k, key, func(m metav1.Object) bool {
		before := m.GetFinalizers()
		after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
		m.SetFinalizers(after)
		return len(after) < len(before)
	})
}

// disown takes owners out of a dependent.
func (s *Server) disown(k *kind, key object.Key, owners ...types.UID) []consequence {
	return s.amend(k, key, func(m metav1.Object) bool {
		before := m.GetOwnerReferences()
		after := slices.DeleteFunc(slices.Clone(before), func(ref metav1.OwnerReference) bool { return slices.Contains(owners, ref.UID) })
		m.SetOwnerReferences(after)
		return len(after) < len(before)
	})
}

// amend changes the metadata of an object, until change has nothing to do.
func (s *Server) amend(k *kind, key object.Key, change func(metav1.Object) bool) []consequence {
	for {
		old := s.storage.get(k, key)
		if old == nil {
			return nil
		}
		next := old.obj.DeepCopyObject()
		if !change(metaOf(next)) {
			return nil
		}
		if _, ok, more, err := s.storeOne(k, old, next); ok || err != nil {
			return more
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
func (s *Server) empty(namespace string) (more []consequence) {
	var atOnce int64
	s.inside(namespace, func(k *kind, rec *record) bool {
		_, _, then, _ := s.deleteOne(k, rec, &metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
		more = append(more, then...)
		return true
	})
	return more
}

// releaseNamespace lets a namespace go that waited for what was in it.
func (s *Server) releaseNamespace(name string) []consequence {
	if name == "" {
		return nil
	}
	ns := s.storage.get(s.namespaces, object.Key{Name: name})
	if ns != nil && ns.meta.GetDeletionTimestamp() != nil && !s.occupied(name) {
		return s.release(s.namespaces, ns.key, contentFinalizer)
	}
	return nil
}
