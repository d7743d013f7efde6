package builtin

import (
	"net/netip"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Import changes an object of a manifest so that this server can store it, after [Default] and
// before [Prepare]. From an export of another cluster it removes what that cluster assigned: the
// addresses and IP families of a Service that are not in use here, and the UID in the selector of
// a Job. If old is not nil, obj replaces it, and keeps what the server or a controller has set in
// it. Import modifies obj, which the caller must own.
func Import(obj, old runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		if before, ok := old.(*corev1.Pod); ok {
			setText(&o.Spec.ServiceAccountName, before.Spec.ServiceAccountName)
			setText(&o.Spec.DeprecatedServiceAccount, before.Spec.DeprecatedServiceAccount)
			setText(&o.Spec.NodeName, before.Spec.NodeName)
		}
	case *corev1.PersistentVolumeClaim:
		if before, ok := old.(*corev1.PersistentVolumeClaim); ok {
			setText(&o.Spec.VolumeName, before.Spec.VolumeName)
		}
	case *corev1.Service:
		importService(o, was(o, old))
	case *batchv1.Job:
		importJob(o, was(o, old))
	}
}

func importService(svc, old *corev1.Service) {
	s := &svc.Spec
	assigned := old != nil && old.Spec.ClusterIP != "" && old.Spec.ClusterIP != corev1.ClusterIPNone
	if s.ClusterIP != corev1.ClusterIPNone && (assigned || foreign(s.ClusterIP) || slices.ContainsFunc(s.ClusterIPs, foreign)) {
		s.ClusterIP, s.ClusterIPs = "", nil // Prepare keeps the stored ones, and Allocate sets others
	}
	unselected := s.ClusterIP == corev1.ClusterIPNone && len(s.Selector) == 0
	if !unselected && (slices.Contains(s.IPFamilies, corev1.IPv6Protocol) || valueOf(s.IPFamilyPolicy) == corev1.IPFamilyPolicyRequireDualStack) {
		s.IPFamilies, s.IPFamilyPolicy = nil, nil
	}
}

// foreign reports whether an address is outside of the range that services get here.
func foreign(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && !serviceRange.Contains(addr)
}

func importJob(job, old *batchv1.Job) {
	s := &job.Spec
	if valueOf(s.ManualSelector) {
		return
	}
	setDefault(&s.Selector, metav1.LabelSelector{})
	for _, name := range []string{legacyJobUID, batchv1.ControllerUidLabel} {
		delete(s.Template.Labels, name)
		delete(s.Selector.MatchLabels, name)
	}
	if old == nil {
		return // prepareJob generates them
	}
	keep := func(labels *map[string]string, from map[string]string) {
		for _, name := range []string{legacyJobUID, legacyJobName, batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
			value, generated := from[name]
			if !generated {
				continue
			}
			if *labels == nil {
				*labels = map[string]string{}
			}
			(*labels)[name] = value
		}
	}
	keep(&s.Template.Labels, old.Spec.Template.Labels)
	if old.Spec.Selector != nil {
		keep(&s.Selector.MatchLabels, old.Spec.Selector.MatchLabels)
	}
}
