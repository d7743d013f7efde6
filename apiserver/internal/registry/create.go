package registry

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/admission"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/special"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ServeCreate serves a create, or a review.
func (s *Registry) ServeCreate(w http.ResponseWriter, r *request.Request) error {
	obj, err := r.Read(w, s.Codecs)
	if err != nil {
		return err
	}
	if r.Kind.Review {
		return s.serveReview(w, r, obj)
	}
	m := kinds.MetaOf(obj)
	s.Pace(r.Request, m.GetName())
	if m.GetResourceVersion() != "" && !r.DryRun() {
		return apierror.Failed("resourceVersion should not be set on objects to be created")
	}
	if r.Kind.Status {
		kinds.SetStatus(obj, nil)
	}
	warnFinalizers(r.Kind, w, m, nil)
	rec, err := s.create(r.Kind, r.Namespace, obj, r.DryRun(), s.Webhooks.Admit(w, r))
	if err != nil {
		return err
	}
	return s.Out.Record(w, r, http.StatusCreated, rec)
}

// createMissing creates the object of an update or apply, for which the user needs the right to
// create as well. It returns done=false if a concurrent request created it first.
func (s *Registry) createMissing(w http.ResponseWriter, r *request.Request, obj runtime.Object) (done bool, err error) {
	create := access.AttributesOf(r.Request)
	create.Verb = "create"
	if err := s.Access.Authorize(access.UserOf(r.Context()), create); err != nil {
		return true, err
	}
	if r.Kind.Status {
		kinds.SetStatus(obj, nil)
	}
	kinds.MetaOf(obj).SetResourceVersion("")
	warnFinalizers(r.Kind, w, kinds.MetaOf(obj), nil)
	rec, err := s.create(r.Kind, r.Namespace, obj, r.DryRun(), s.Webhooks.Admit(w, r))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	return true, s.Out.Record(w, r, http.StatusCreated, rec)
}

// create stores a new object and takes ownership of it.
func (s *Registry) create(k *kinds.Kind, namespace string, obj runtime.Object, dry bool, by *admission.Admission) (*kinds.Record, error) {
	m := kinds.MetaOf(obj)
	if err := setNamespace(m, namespace); err != nil {
		return nil, err
	}
	if err := s.isActive(k, m); err != nil {
		return nil, err
	}
	m.SetUID("")
	m.SetCreationTimestamp(metav1.Time{})
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetSelfLink("")
	var err error
	if by != nil {
		if obj, err = s.Ownership.Updated(k, "", k.Blank(), obj, by.Request.Updater()); err != nil {
			return nil, err
		}
	}
	if obj, err = by.Change(nil, obj); err != nil {
		return nil, err
	}
	m = kinds.MetaOf(obj)
	rules := special.Of(obj)
	if by != nil {
		rules.Request(obj, access.UserOf(by.Request.Context()))
	}
	if finalizer := rules.Protection(); finalizer != "" && s.NoControllers { // a controller removes it
		m.SetFinalizers(with(m.GetFinalizers(), finalizer))
	}
	generated := m.GetName() == "" && m.GetGenerateName() != ""
	for try := 0; ; try++ {
		if generated {
			m.SetName(kinds.GeneratedBase(m.GetGenerateName()) + s.Names.Suffix())
		}
		next := obj
		if svc, ok := obj.(*corev1.Service); ok {
			next = svc.DeepCopy() // without what manage allocates
		}
		rec, err := s.createNamed(k, next, dry, by)
		if errors.Is(err, errTaken) {
			continue
		}
		if !generated || !apierrors.IsAlreadyExists(err) || try >= 8 {
			return rec, err
		}
	}
}

func (s *Registry) createNamed(k *kinds.Kind, obj runtime.Object, dry bool, by *admission.Admission) (*kinds.Record, error) {
	m := kinds.MetaOf(obj)
	m.SetUID(types.UID(s.Names.UID()))
	m.SetCreationTimestamp(kinds.Now())
	if !dry { // a dry run keeps it
		m.SetResourceVersion("")
	}
	if k.HasGeneration() && !(k.Typed && k.Kind == "CSIDriver") { // whose first change makes it 1
		m.SetGeneration(1)
	}
	rules := special.Of(obj)
	rules.Normalise(obj)
	rules.Start(obj)
	if err := s.manage(k, obj, nil); err != nil {
		return nil, err
	}
	if err := k.Validate(obj, nil, ""); err != nil {
		return nil, err
	}
	by.Warn(k, obj, nil)
	if err := by.Check(nil, obj); err != nil {
		return nil, err
	}
	var defined []*kinds.Kind
	var accepted *kinds.Definition
	if d, ok := obj.(*kinds.Definition); ok {
		d.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		d.Status.StoredVersions = kinds.StoredVersions(d)
		accepted = d.DeepCopy()
		s.establish(accepted, m.GetCreationTimestamp())
		var err error
		if defined, err = kinds.Serving(accepted, s.Schemas); err != nil {
			return nil, err
		}
	}
	obj = k.ToStorage(obj)
	if err := checkSize(obj); err != nil {
		return nil, err
	}
	key := object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
	if dry {
		if there := s.Storage.Get(k, key); there != nil {
			return nil, alreadyExists(k, there)
		}
		return kinds.NewUnstored(obj), nil
	}
	rec, ok, err := s.Storage.CommitIf(k, key, nil, obj, func() error {
		return cmp.Or(s.checkActive(k, m), s.checkAllocated(k, obj, nil))
	})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, alreadyExists(k, s.Storage.Get(k, key))
	}
	if accepted != nil {
		// As on the real server, the response is the definition before it is established. Its
		// resource is served before a client can see that. If this commit fails, the write that
		// came first has established it, or deleted it.
		if defined != nil {
			if err := s.Define(defined); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		if _, ok := s.Storage.Commit(k, key, rec, accepted); !ok && s.Storage.Get(k, key) == nil && len(defined) > 0 {
			s.processGC(s.undefine(defined[0].Group, defined[0].Resource.Resource)...)
		}
	}
	s.processGC(gcItem{kind: k, rec: rec})
	return rec, nil
}

// alreadyExists returns an AlreadyExists error, which mentions if the existing object is
// being deleted.
func alreadyExists(k *kinds.Kind, there *kinds.Record) error {
	if there == nil {
		return apierrors.NewAlreadyExists(k.GVR().GroupResource(), "") // deleted in the meantime
	}
	err := apierrors.NewAlreadyExists(k.GVR().GroupResource(), there.Key.Name)
	if there.Meta.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// setNamespace gives an object the namespace of a request. An object of another namespace is an
// error, unless the request is for a cluster-scoped resource, whose objects have none.
func setNamespace(m metav1.Object, namespace string) error {
	if had := m.GetNamespace(); had != "" && had != namespace && namespace != "" {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	m.SetNamespace(namespace)
	return nil
}

// isActive is checkActive for callers that do not hold the storage lock.
func (s *Registry) isActive(k *kinds.Kind, m metav1.Object) error {
	var err error
	s.Storage.Locked(func() { err = s.checkActive(k, m) })
	return err
}

// checkActive rejects new objects in a namespace that does not exist or is terminating, and
// those of a definition that is terminating. The caller must hold the storage lock, so that the answer stays true until
// the commit.
func (s *Registry) checkActive(k *kinds.Kind, m metav1.Object) error {
	if !k.Typed {
		if d := s.Storage.Find(s.definitions, object.Key{Name: k.String()}); d != nil && d.Meta.GetDeletionTimestamp() != nil {
			return apierrors.NewForbidden(k.GVR().GroupResource(), m.GetName(), errors.New("create not allowed while custom resource definition is terminating"))
		}
	}
	namespace := m.GetNamespace()
	if !k.Namespaced {
		return nil
	}
	ns := s.Storage.Find(s.namespaces, object.Key{Name: namespace})
	switch {
	case ns == nil && s.AnyNamespace:
	case ns == nil:
		return kinds.NotFound(s.namespaces, namespace)
	case ns.Meta.GetDeletionTimestamp() != nil:
		err := apierrors.NewForbidden(k.GVR().GroupResource(), cmp.Or(m.GetName(), m.GetGenerateName()),
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace"})
		return err
	}
	return nil
}
