package special

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// secret has the rules of Secrets.
type secret struct{ plain }

func (secret) Normalise(obj runtime.Object) {
	s := obj.(*corev1.Secret)
	s.Type = cmp.Or(s.Type, corev1.SecretTypeOpaque)
	for name, text := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[name] = []byte(text)
	}
	s.StringData = nil
}

// volume, claim and attributesClass have the rules of kinds that a controller protects while they are in use.
type (
	volume          struct{ plain }
	claim           struct{ plain }
	attributesClass struct{ plain }
)

func (volume) Start(obj runtime.Object) {
	if v := obj.(*corev1.PersistentVolume); v.Status.Phase == "" {
		at := metav1.Now().Rfc3339Copy()
		v.Status.Phase, v.Status.LastPhaseTransitionTime = corev1.VolumePending, &at
	}
}

func (volume) Protection() string { return "kubernetes.io/pv-protection" }

func (claim) Start(obj runtime.Object) {
	c := obj.(*corev1.PersistentVolumeClaim)
	c.Status.Phase = cmp.Or(c.Status.Phase, corev1.ClaimPending)
}

func (claim) Protection() string { return "kubernetes.io/pvc-protection" }

func (attributesClass) Protection() string { return "kubernetes.io/vac-protection" }

// definition has the rules of CustomResourceDefinitions. Of the defaults, the stored versions are what the
// server records.
type definition struct{ plain }

func (definition) Normalise(obj runtime.Object) {
	d := obj.(*apiextensionsv1.CustomResourceDefinition)
	stored := d.Status.StoredVersions
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(d)
	d.Status.StoredVersions = stored
}
