package table

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// bindingColumns returns the columns of bindings.
func bindingColumns(kind, roleRef string) []metav1.TableColumnDefinition {
	columns := []metav1.TableColumnDefinition{nameColumn, col("Role", "string", 0, roleRef), ageColumn}
	for _, subjects := range []string{"Users", "Groups", "ServiceAccounts"} {
		columns = append(columns, col(subjects, "string", 1, subjects+" in the "+kind))
	}
	return columns
}

// adminCells is builtinCells for the kinds that administrators use: volumes, quotas, budgets,
// leases and permissions.
func adminCells(obj runtime.Object, age any) []any {
	m := kinds.MetaOf(obj)
	name, created := m.GetName(), m.GetCreationTimestamp().UTC().Format(time.RFC3339)
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		size, phase, claim := o.Spec.Capacity[corev1.ResourceStorage], string(o.Status.Phase), ""
		if o.DeletionTimestamp != nil {
			phase = "Terminating"
		}
		if ref := o.Spec.ClaimRef; ref != nil {
			claim = ref.Namespace + "/" + ref.Name
		}
		class, annotated := o.Annotations[corev1.BetaStorageClassAnnotation]
		if !annotated {
			class = o.Spec.StorageClassName
		}
		return []any{name, size.String(), accessModes(o.Spec.AccessModes), string(o.Spec.PersistentVolumeReclaimPolicy), phase, claim, class,
			orText(o.Spec.VolumeAttributesClassName, "<unset>"), o.Status.Reason, age, orText(o.Spec.VolumeMode, "<unset>")}
	case *storagev1.StorageClass:
		const isDefault = "is-default-class"
		if o.Annotations["storageclass.kubernetes.io/"+isDefault] == "true" || o.Annotations["storageclass.beta.kubernetes.io/"+isDefault] == "true" {
			name += " (default)"
		}
		return []any{name, o.Provisioner, orText(o.ReclaimPolicy, "Delete"), orText(o.VolumeBindingMode, "Immediate"), o.AllowVolumeExpansion != nil && *o.AllowVolumeExpansion, age}
	case *corev1.ResourceQuota:
		var requests, limits []string
		for _, resource := range slices.Sorted(maps.Keys(o.Status.Hard)) {
			used, hard := o.Status.Used[resource], o.Status.Hard[resource]
			text := fmt.Sprintf("%s: %s/%s", resource, used.String(), hard.String())
			if strings.HasPrefix(string(resource), "limits.") {
				limits = append(limits, text)
			} else {
				requests = append(requests, text)
			}
		}
		return []any{name, strings.Join(requests, ", "), strings.Join(limits, ", "), age}
	case *policyv1.PodDisruptionBudget:
		number := func(n *intstr.IntOrString) string {
			if n == nil {
				return "N/A"
			}
			return n.String()
		}
		return []any{name, number(o.Spec.MinAvailable), number(o.Spec.MaxUnavailable), int64(o.Status.DisruptionsAllowed), age}
	case *coordinationv1.Lease:
		return []any{name, orText(o.Spec.HolderIdentity, ""), age}
	case *rbacv1.Role, *rbacv1.ClusterRole, *kinds.Definition:
		return []any{name, created}
	case *rbacv1.RoleBinding:
		return append([]any{name, o.RoleRef.Kind + "/" + o.RoleRef.Name, age}, subjectCells(o.Subjects)...)
	case *rbacv1.ClusterRoleBinding:
		return append([]any{name, o.RoleRef.Kind + "/" + o.RoleRef.Name, age}, subjectCells(o.Subjects)...)
	}
	return nil
}

// subjectCells returns the users, groups and ServiceAccounts of a binding.
func subjectCells(subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}
}

// accessModes returns the access modes of a volume in kubectl's short form.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var all []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(modes, m.mode) {
			all = append(all, m.short)
		}
	}
	return strings.Join(all, ",")
}

// nodeRoles returns the roles that a node's labels name.
func nodeRoles(n *corev1.Node) string {
	var roles []string
	for label, value := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	return none(distinct(roles))
}

// nodeAddress returns the first address of a node of a type.
func nodeAddress(n *corev1.Node, of corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == of {
			return a.Address
		}
	}
	return none("")
}
