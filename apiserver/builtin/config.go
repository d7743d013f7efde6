package builtin

import (
	"encoding/json"
	"reflect"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const frozen = "field is immutable when `immutable` is set"

func (p *problems) configMap(c, old *corev1.ConfigMap) {
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	if old != nil && valueOf(old.Immutable) {
		if !valueOf(c.Immutable) {
			p.forbidden(field.NewPath("immutable"), frozen)
		}
		if !equality.Semantic.DeepEqual(c.Data, old.Data) {
			p.forbidden(data, frozen)
		}
		if !equality.Semantic.DeepEqual(c.BinaryData, old.BinaryData) {
			p.forbidden(binary, frozen)
		}
	}
	size := 0
	for _, key := range sortedKeys(c.Data) {
		p.invalid(data.Key(key), key, utilvalidation.IsConfigMapKey(key)...)
		if _, twice := c.BinaryData[key]; twice {
			p.invalid(data.Key(key), key, "duplicate of key present in binaryData")
		}
		size += len(c.Data[key])
	}
	for _, key := range sortedKeys(c.BinaryData) {
		p.invalid(binary.Key(key), key, utilvalidation.IsConfigMapKey(key)...)
		size += len(c.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		p.add(field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
}

// secretKeys are the keys that secrets of a type must have.
var secretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

func (p *problems) secret(s, old *corev1.Secret) {
	data := field.NewPath("data")
	if old != nil {
		p.immutable(field.NewPath("type"), s.Type, old.Type)
		if valueOf(old.Immutable) {
			if !valueOf(s.Immutable) {
				p.forbidden(field.NewPath("immutable"), frozen)
			}
			if !reflect.DeepEqual(s.Data, old.Data) {
				p.forbidden(data, frozen)
			}
		}
	}
	size := 0
	for _, key := range sortedKeys(s.Data) {
		p.invalid(data.Key(key), key, utilvalidation.IsConfigMapKey(key)...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		p.add(field.TooLong(data, "", corev1.MaxSecretSize))
	}
	for _, key := range secretKeys[s.Type] {
		value, found := s.Data[key]
		switch {
		case !found || s.Type == corev1.SecretTypeSSHAuth && len(value) == 0:
			p.required(data.Key(key), "")
		case s.Type == corev1.SecretTypeDockercfg || s.Type == corev1.SecretTypeDockerConfigJson:
			if err := json.Unmarshal(value, &map[string]any{}); err != nil {
				p.invalid(data.Key(key), "<secret contents redacted>", err.Error())
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		p.need(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), s.Annotations[corev1.ServiceAccountNameKey])
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			p.required(data.Key(corev1.BasicAuthUsernameKey), "")
			p.required(data.Key(corev1.BasicAuthPasswordKey), "")
		}
	}
}

func defaultClaim(s *corev1.PersistentVolumeClaimSpec) {
	setDefault(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
}

// prepareClaim drops a source that is not supported, and sets the two fields for it.
func prepareClaim(s *corev1.PersistentVolumeClaimSpec) {
	if d := s.DataSource; d != nil {
		group := valueOf(d.APIGroup)
		if !(d.Kind == "PersistentVolumeClaim" && group == "" || d.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io") {
			s.DataSource = nil
		}
	}
	// Each of the two fields stands for the other if it can.
	switch {
	case s.DataSource != nil && s.DataSourceRef == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: s.DataSource.APIGroup, Kind: s.DataSource.Kind, Name: s.DataSource.Name}
	case s.DataSource == nil && s.DataSourceRef != nil && valueOf(s.DataSourceRef.Namespace) == "":
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: s.DataSourceRef.APIGroup, Kind: s.DataSourceRef.Kind, Name: s.DataSourceRef.Name}
	}
}

func (p *problems) claim(c, old *corev1.PersistentVolumeClaim) {
	p.claimSpec(&c.Spec, spec)
	if old == nil {
		return
	}
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	// The default class is set later, and that of the annotation may be moved to the field.
	class, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	set := was.StorageClassName == nil && (!annotated || valueOf(now.StorageClassName) == class)
	if is := c.Annotations[corev1.BetaStorageClassAnnotation]; is != class && (!set || is != "") {
		p.invalid(field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), is, validation.FieldImmutableErrorMsg)
	}
	if set {
		now.StorageClassName = nil
	}
	if c.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(now, was) {
		p.forbidden(spec, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"+diff.Diff(*was, *now))
	}
	size, before, capacity := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage], old.Status.Capacity[corev1.ResourceStorage]
	if size.Cmp(before) < 0 && size.Cmp(capacity) <= 0 {
		p.forbidden(spec.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
	}
	p.immutable(field.NewPath("volumeMode"), c.Spec.VolumeMode, old.Spec.VolumeMode)
	attributes := c.Spec.VolumeAttributesClassName
	if old.Status.CurrentVolumeAttributesClassName != nil && valueOf(attributes) == "" && !equality.Semantic.DeepEqual(attributes, old.Spec.VolumeAttributesClassName) {
		to := "nil"
		if attributes != nil {
			to = "empty string"
		}
		p.forbidden(spec.Child("volumeAttributesClassName"), "update to "+to+" is forbidden when status.currentVolumeAttributesClassName is not nil")
	}
}

func (p *problems) claimSpec(s *corev1.PersistentVolumeClaimSpec, at *field.Path) {
	modes := at.Child("accessModes")
	if len(s.AccessModes) == 0 {
		p.required(modes, "at least 1 access mode is required")
	}
	p.labelSelector(at.Child("selector"), s.Selector)
	exclusive := false
	for _, mode := range s.AccessModes {
		emptyOr(p, modes, mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		exclusive = exclusive || mode == corev1.ReadWriteOncePod
	}
	if exclusive && len(s.AccessModes) > 1 {
		p.forbidden(modes, "may not use ReadWriteOncePod with other access modes")
	}
	storage := at.Child("resources").Key("storage")
	if size, found := s.Resources.Requests[corev1.ResourceStorage]; !found {
		p.required(storage, "")
	} else if size.Sign() <= 0 {
		p.invalid(storage, size.String(), "must be greater than zero")
	}
	if class := valueOf(s.StorageClassName); class != "" {
		p.subdomain(at.Child("storageClassName"), class)
	}
	if s.VolumeMode != nil {
		emptyOr(p, at.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	if source := s.DataSource; source != nil {
		p.dataSource(source.Kind, source.Name, valueOf(source.APIGroup), at.Child("dataSource"))
	}
	if source := s.DataSourceRef; source != nil {
		p.dataSource(source.Kind, source.Name, valueOf(source.APIGroup), at.Child("dataSourceRef"))
	}
}

func (p *problems) dataSource(kind, name, group string, at *field.Path) {
	p.need(at.Child("name"), name)
	p.need(at.Child("kind"), kind)
	if group != "" {
		p.subdomain(at.Child("apiGroup"), group)
	} else if kind != "PersistentVolumeClaim" {
		p.invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
}

func (p *problems) lease(s *coordinationv1.LeaseSpec, at *field.Path) {
	if n := s.LeaseDurationSeconds; n != nil && *n <= 0 {
		p.invalid(at.Child("leaseDurationSeconds"), *n, "must be greater than 0")
	}
	if n := s.LeaseTransitions; n != nil && *n < 0 {
		p.invalid(at.Child("leaseTransitions"), *n, "must be greater than or equal to 0")
	}
}
