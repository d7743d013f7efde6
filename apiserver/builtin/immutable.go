package builtin

import (
	"maps"
	"reflect"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultFixed sets the defaults of kinds of which only the immutable fields are validated.
func defaultFixed(obj runtime.Object) {
	switch o := obj.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			defaultWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.ClientConfig.Service, w.Rules)
			setDefault(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			defaultWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.ClientConfig.Service, w.Rules)
		}
	case *corev1.Node:
		s := &o.Spec
		if s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR) {
			s.PodCIDRs = []string{s.PodCIDR}
		} else if len(s.PodCIDRs) > 0 {
			s.PodCIDR = s.PodCIDRs[0]
		}
	case *resourcev1.ResourceClaim:
		defaultDevices(&o.Spec)
	case *resourcev1.ResourceClaimTemplate:
		defaultDevices(&o.Spec.Spec)
	case *corev1.PersistentVolume:
		setText(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		setDefault(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *networkingv1.IngressClass:
		if o.Spec.Parameters != nil {
			setDefault(&o.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	case *schedulingv1.PriorityClass:
		setDefault(&o.PreemptionPolicy, corev1.PreemptLowerPriority)
	case *storagev1.StorageClass:
		setDefault(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		setDefault(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *storagev1.CSIDriver:
		setDefault(&o.Spec.AttachRequired, true)
		setDefault(&o.Spec.PodInfoOnMount, false)
		setDefault(&o.Spec.StorageCapacity, false)
		setDefault(&o.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(o.Spec.VolumeLifecycleModes) == 0 {
			o.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
		setDefault(&o.Spec.RequiresRepublish, false)
		setDefault(&o.Spec.SELinuxMount, false)
	}
}

// defaultWebhook sets the defaults that both kinds of webhooks have.
func defaultWebhook(failure **admissionregistrationv1.FailurePolicyType, match **admissionregistrationv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector,
	timeout **int32, service *admissionregistrationv1.ServiceReference, rules []admissionregistrationv1.RuleWithOperations) {
	setDefault(failure, admissionregistrationv1.Fail)
	setDefault(match, admissionregistrationv1.Equivalent)
	setDefault(namespaces, metav1.LabelSelector{})
	setDefault(objects, metav1.LabelSelector{})
	setDefault(timeout, 10)
	if service != nil {
		setDefault(&service.Port, 443)
	}
	for i := range rules {
		setDefault(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func defaultDevices(s *resourcev1.ResourceClaimSpec) {
	count := func(mode *resourcev1.DeviceAllocationMode, n *int64) {
		setText(mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount {
			setNumber(n, 1)
		}
	}
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			count(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			count(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

// fixed checks the immutable fields of kinds that are not validated otherwise.
func (p *problems) fixed(obj, old runtime.Object) {
	at := field.NewPath
	switch o := obj.(type) {
	case *corev1.Node:
		p.node(&o.Spec, &old.(*corev1.Node).Spec)
	case *corev1.PersistentVolume:
		p.persistentVolume(&o.Spec, &old.(*corev1.PersistentVolume).Spec)
	case *corev1.ResourceQuota:
		if was := old.(*corev1.ResourceQuota); !sets.New(o.Spec.Scopes...).Equal(sets.New(was.Spec.Scopes...)) {
			p.invalid(spec.Child("scopes"), o.Spec.Scopes, validation.FieldImmutableErrorMsg)
		}
	case *eventsv1.Event:
		p.event(o, old.(*eventsv1.Event))
	case *networkingv1.ServiceCIDR:
		p.serviceCIDR(o.Spec.CIDRs, old.(*networkingv1.ServiceCIDR).Spec.CIDRs)
	case *schedulingv1.PriorityClass:
		was := old.(*schedulingv1.PriorityClass)
		if o.Value != was.Value {
			p.forbidden(at("value"), "may not be changed in an update.")
		}
		p.immutable(at("preemptionPolicy"), o.PreemptionPolicy, was.PreemptionPolicy)
	case *storagev1.CSIDriver:
		was := old.(*storagev1.CSIDriver).Spec
		p.immutable(spec.Child("attachedRequired"), o.Spec.AttachRequired, was.AttachRequired) // the real server misspells it
		p.immutable(spec.Child("volumeLifecycleModes"), o.Spec.VolumeLifecycleModes, was.VolumeLifecycleModes)
	case *storagev1.CSINode:
		for _, before := range old.(*storagev1.CSINode).Spec.Drivers {
			for _, driver := range o.Spec.Drivers {
				if driver.Name == before.Name {
					driver.Allocatable, before.Allocatable = nil, nil
					p.immutable(spec.Child("drivers"), driver, before)
				}
			}
		}
	case *storagev1.VolumeAttributesClass:
		was := old.(*storagev1.VolumeAttributesClass)
		if o.DriverName != was.DriverName {
			p.forbidden(at("driverName"), "updates to driverName are forbidden.")
		}
		if !maps.Equal(o.Parameters, was.Parameters) {
			p.forbidden(at("parameters"), "updates to parameters are forbidden.")
		}
	}
	is, was := reflect.Indirect(reflect.ValueOf(obj)), reflect.Indirect(reflect.ValueOf(old))
	_, version, _ := strings.Cut(is.Type().PkgPath(), "/v1") // of k8s.io/api/GROUP/v1
	for _, path := range immutableFields[is.Type().Name()+version] {
		var at *field.Path
		is, was := is, was
		for name := range strings.SplitSeq(path, ".") {
			at = at.Child(strings.ToLower(name[:1]) + name[1:])
			is, was = is.FieldByName(name), was.FieldByName(name)
		}
		p.immutable(at, is.Interface(), was.Interface())
	}
}

// immutableFields are the fields of kinds that must equal the old ones. Not every supported version of
// k8s.io/api has the version v1 of the last two.
var immutableFields = map[string][]string{
	"ControllerRevision":    {"Data"},
	"EndpointSlice":         {"AddressType"},
	"IngressClass":          {"Spec.Controller"},
	"IPAddress":             {"Spec.ParentRef"},
	"RuntimeClass":          {"Handler"},
	"ResourceClaim":         {"Spec"},
	"ResourceClaimTemplate": {"Spec"},
	"ResourceSlice":         {"Spec.Pool.Name", "Spec.Driver", "Spec.NodeName"},
	"StorageClass":          {"Parameters", "Provisioner", "ReclaimPolicy", "VolumeBindingMode"},
	"CSIStorageCapacity":    {"NodeTopology", "StorageClassName"},
	"VolumeAttachment":      {"Spec"},
	"ClusterTrustBundle":    {"Spec.SignerName"},
	"PodCertificateRequest": {"Spec"},
}

func (p *problems) node(s, old *corev1.NodeSpec) {
	if was := old.PodCIDRs; len(was) > 0 {
		changed := 1
		if is := s.PodCIDRs; len(is) == len(was) {
			changed = 0
			for i := range is {
				if is[i] != was[i] {
					changed++
				}
			}
		}
		for range changed { // one error each
			p.forbidden(spec.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`)
		}
	}
	if old.ProviderID != "" && s.ProviderID != old.ProviderID {
		p.forbidden(spec.Child("providerID"), `node updates may not change providerID except from "" to valid`)
	}
	if s.DoNotUseExternalID != old.DoNotUseExternalID {
		p.forbidden(spec.Child("externalID"), "may not be updated")
	}
}

func (p *problems) persistentVolume(s, old *corev1.PersistentVolumeSpec) {
	source := s.PersistentVolumeSource
	if csi, was := source.CSI, old.CSI; csi != nil && was != nil && was.ControllerExpandSecretRef == nil {
		source.CSI = csi.DeepCopy()
		source.CSI.ControllerExpandSecretRef = nil // may be added
	}
	if !equality.Semantic.DeepEqual(source, old.PersistentVolumeSource) {
		p.forbidden(spec.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation\n"+diff.Diff(old.PersistentVolumeSource, source))
	}
	p.immutable(field.NewPath("volumeMode"), s.VolumeMode, old.VolumeMode)
	if old.NodeAffinity != nil && !equality.Semantic.DeepEqual(s.NodeAffinity, old.NodeAffinity) {
		p.invalid(field.NewPath("nodeAffinity"), s.NodeAffinity, validation.FieldImmutableErrorMsg+", except for updating from beta label to GA")
	}
	if old.VolumeAttributesClassName != nil && s.VolumeAttributesClassName == nil {
		p.forbidden(spec.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden")
	}
}

func (p *problems) serviceCIDR(is, was []string) {
	at := spec.Child("cidrs")
	if len(is) != len(was) && (len(was) != 1 || len(is) != 2) {
		p.invalid(at, is, validation.FieldImmutableErrorMsg)
		return
	}
	for i := range was {
		if is[i] != was[i] {
			p.invalid(at.Index(i), is[i], validation.FieldImmutableErrorMsg)
		}
	}
}

// event checks an update through events.k8s.io, in the words of the core kind. An update through the
// core group may change every field.
func (p *problems) event(e, old *eventsv1.Event) {
	at := e.EventTime
	if at.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		at = old.EventTime
	}
	for _, f := range []struct {
		name    string
		is, was any
	}{
		{"involvedObject", e.Regarding, old.Regarding}, {"reason", e.Reason, old.Reason}, {"message", e.Note, old.Note},
		{"source", e.DeprecatedSource, old.DeprecatedSource}, {"firstTimestamp", e.DeprecatedFirstTimestamp, old.DeprecatedFirstTimestamp},
		{"lastTimestamp", e.DeprecatedLastTimestamp, old.DeprecatedLastTimestamp}, {"count", e.DeprecatedCount, old.DeprecatedCount},
		{"reason", e.Reason, old.Reason}, {"type", e.Type, old.Type}, {"eventTime", at, old.EventTime}, {"action", e.Action, old.Action},
		{"related", e.Related, old.Related}, {"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		p.immutable(field.NewPath(f.name), f.is, f.was)
	}
}
