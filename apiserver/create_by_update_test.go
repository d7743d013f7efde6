package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUpdatesOfSomeKindsCreate(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	const namespace, rbac = "/api/v1/namespaces/default", "/apis/rbac.authorization.k8s.io/v1"
	for path, body := range map[string]string{
		namespace + "/services/s":                                  `"spec":{"ports":[{"port":80}]}`,
		namespace + "/endpoints/s":                                 `"subsets":[]`,
		namespace + "/limitranges/s":                               `"spec":{"limits":[]}`,
		namespace + "/events/s":                                    `"involvedObject":{"namespace":"default"}`,
		"/apis/coordination.k8s.io/v1/namespaces/default/leases/s": `"spec":{"holderIdentity":"x"}`,
		rbac + "/namespaces/default/roles/s":                       `"rules":[]`,
		rbac + "/namespaces/default/rolebindings/s":                `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}`,
		rbac + "/clusterroles/s":                                   `"rules":[]`,
		rbac + "/clusterrolebindings/s":                            `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"s"}`,
		"/apis/node.k8s.io/v1/runtimeclasses/s":                    `"handler":"h"`,
	} {
		put := func(metadata, query string) response {
			return do(t, s, http.MethodPut, path+query, `{"metadata":{"name":"s"`+metadata+`},`+body+`}`)
		}
		put(`,"uid":"other"`, "").refused(t, http.StatusConflict, "Conflict", "Precondition failed: UID in precondition: other, UID in object meta: ")
		if a := put("", "?dryRun=All"); a.code != http.StatusCreated || get(t, s, path).code != http.StatusNotFound {
			t.Errorf("%s: dry run: %s", path, a.raw)
		}
		if a := put(`,"resourceVersion":"5"`, ""); a.code != http.StatusCreated || a.at("metadata", "uid") == "" || get(t, s, path).code != http.StatusOK {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	do(t, s, http.MethodPut, namespace+"/configmaps/s", `{"metadata":{"name":"s"}}`).refused(t, http.StatusNotFound, "NotFound", `configmaps "s" not found`)
	do(t, s, http.MethodPut, namespace+"/services/t/status", `{"metadata":{"name":"t"}}`).refused(t, http.StatusNotFound, "NotFound", `services "t" not found`)
	do(t, s, http.MethodPut, namespace+"/services/t", `{"metadata":{"name":"t"},"spec":{}}`).refused(t, http.StatusUnprocessableEntity, "Invalid", "spec.ports: Required value")
}

// A user that may only update cannot create in this way.
func TestUpdatesThatCreateNeedTheRightToCreate(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{RBAC: true})
	mustCreate(t, s, clusterRole("leases", rule("update", "coordination.k8s.io", "leases")), clusterBinding("leases", subject("User", "ann")))
	leases := clientsetOf(t, s.ConfigFor("ann")).CoordinationV1().Leases("default")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without the right to create: %v", err)
	}
	mustCreate(t, s, clusterRole("create", rule("create", "coordination.k8s.io", "leases")), clusterBinding("create", subject("User", "ann")))
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Errorf("with the right to create: %v", err)
	}
}
