package registry

import (
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// LoadObjects creates or replaces objects; see Server.LoadObjects.
func (s *Registry) LoadObjects(objs []runtime.Object) error {
	for i, obj := range objs {
		if isNil(obj) {
			return fmt.Errorf("apiserver: object %d of %d is nil", i+1, len(objs))
		}
	}
	objs = slices.Clone(objs)
	slices.SortStableFunc(objs, func(a, b runtime.Object) int { return loadRank(a) - loadRank(b) })
	definitions := s.validateDefinitions(objs)
	owners := loadedOwners{uids: map[types.UID]types.UID{}}
	for i, obj := range objs {
		var owned runtime.Object
		if i < len(definitions) {
			owned = definitions[i]
		}
		if err := s.load(obj, owned, &owners); err != nil {
			if at, ok := obj.(interface{ Where() string }); ok {
				return &loadError{at.Where(), err}
			}
			return err
		}
	}
	for _, owned := range owners.left {
		s.restoreUIDs(owned, owners.uids)
	}
	return nil
}

// validateDefinitions validates the definitions at the start of objects on all cores, and returns
// the results of own, or nil for those with an error. The schemas remember the definitions that
// are valid, so creating them one after the other is fast.
func (s *Registry) validateDefinitions(objs []runtime.Object) []runtime.Object {
	if s.Schemas == nil {
		return nil
	}
	n := 0
	for ; n < len(objs); n++ {
		if k, err := s.KindOf(objs[n]); err != nil || k != s.definitions {
			break
		}
	}
	owned := make([]runtime.Object, n)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(n, goruntime.GOMAXPROCS(0)) {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				k, obj, err := s.Own(objs[i])
				if err == nil {
					_ = k.Validate(obj, nil, "") // creating it returns the error
					owned[i] = obj
				}
			}
		})
	}
	work.Wait()
	return owned
}

// loadError is an error with the place of the object in a manifest.
type loadError struct {
	where string
	err   error
}

// Error implements error.
func (e *loadError) Error() string {
	return fmt.Sprintf("apiserver: %s: %s", e.where, strings.TrimPrefix(e.err.Error(), "apiserver: "))
}

// Unwrap returns the error without the place.
func (e *loadError) Unwrap() error { return e.err }

// loadRank returns the order of creation.
func loadRank(obj runtime.Object) int {
	switch obj.GetObjectKind().GroupVersionKind().Kind {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	case "":
		switch obj.(type) {
		case *kinds.Definition:
			return 0
		case *corev1.Namespace:
			return 1
		}
	}
	return 2
}

// loadedOwners maps the UIDs of the arguments of LoadObjects to those of the server.
type loadedOwners struct {
	uids map[types.UID]types.UID
	left []loadedOwned
}

// loadedOwned is a stored object with the owner references of its argument. Its labels or the
// references may have UIDs of other arguments.
type loadedOwned struct {
	kind   *kinds.Kind
	stored metav1.Object
	refs   []metav1.OwnerReference
}

// load creates or replaces an object. owned is the result of own, or nil.
func (s *Registry) load(obj, owned runtime.Object, owners *loadedOwners) error {
	k, err := s.KindOf(obj)
	if err != nil {
		if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Kind != "" {
			return fmt.Errorf("unknown kind %s in %s; is its CustomResourceDefinition missing?", gvk.Kind, gvk.GroupVersion())
		}
		return err
	}
	if owned == nil {
		if k, owned, err = s.Own(obj); err != nil {
			return err
		}
	}
	m := kinds.MetaOf(owned)
	uid, refs := m.GetUID(), m.GetOwnerReferences()
	m.SetOwnerReferences(nil)
	if k.Strict {
		builtin.Import(owned, nil)
	}
	made, err := s.CreateOwned(k, owned)
	if apierrors.IsAlreadyExists(err) {
		namespace := m.GetNamespace()               // createOwned sets a default
		if k, owned, err = s.Own(obj); err != nil { // createOwned has changed the other copy
			return err
		}
		m = kinds.MetaOf(owned)
		m.SetNamespace(namespace)
		m.SetOwnerReferences(nil)
		m.SetResourceVersion("")
		m.SetUID("")
		if old := s.Storage.Get(k, object.Key{Namespace: namespace, Name: m.GetName()}); old != nil {
			before := k.Working(old).DeepCopyObject()
			if k.Strict {
				builtin.Import(owned, before)
			}
			if k.Status && !kinds.HasStatus(obj) {
				kinds.SetStatus(owned, before)
			}
		}
		made, err = s.UpdateOwned(k, owned)
	}
	if err != nil {
		return err
	}
	stored := kinds.MetaOf(made)
	if uid != "" {
		owners.uids[uid] = stored.GetUID()
	}
	if len(refs) > 0 || k.Strict && len(stored.GetLabels()) > 0 {
		owners.left = append(owners.left, loadedOwned{k.Storage, stored, refs})
	}
	return nil
}

// restoreUIDs sets the references to owners that were loaded as well, and the labels of Jobs and
// their pods.
func (s *Registry) restoreUIDs(owned loadedOwned, uids map[types.UID]types.UID) {
	var owners []metav1.OwnerReference
	for _, ref := range owned.refs {
		if ref.UID = uids[ref.UID]; ref.UID != "" {
			owners = append(owners, ref)
		}
	}
	labels := maps.Clone(owned.stored.GetLabels())
	relabelled := false
	for _, name := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		if uid := uids[types.UID(labels[name])]; owned.kind.Strict && uid != "" {
			labels[name], relabelled = string(uid), true
		}
	}
	if len(owners) == 0 && !relabelled {
		return
	}
	key := object.Key{Namespace: owned.stored.GetNamespace(), Name: owned.stored.GetName()}
	s.processGC(s.updateMeta(owned.kind, key, func(m metav1.Object) bool {
		if len(owners) > 0 {
			m.SetOwnerReferences(owners)
		}
		if relabelled {
			m.SetLabels(labels)
		}
		return m.GetUID() == owned.stored.GetUID() // else it has been replaced
	})...)
}
