package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
)

// Each merge patch changes one field. The fields are those that the error names, none for a change
// that is allowed. e2e/conformance sends the same to kube-apiserver.
func TestImmutableFieldsOfBuiltinKinds(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	type change struct{ patch, fields string }
	for _, c := range []struct {
		path, body string
		changes    []change
	}{
		{"/apis/storage.k8s.io/v1/storageclasses", `"provisioner":"e.com/p","parameters":{"a":"b"}`, []change{
			{`{"provisioner":"e.com/q"}`, "provisioner"}, {`{"parameters":{"a":"c"}}`, "parameters"}, {`{"reclaimPolicy":"Retain"}`, "reclaimPolicy"},
			{`{"volumeBindingMode":"WaitForFirstConsumer"}`, "volumeBindingMode"}, {`{"allowVolumeExpansion":true,"reclaimPolicy":null}`, ""},
			{`{"provisioner":"e.com/q","parameters":null}`, "parameters provisioner"},
		}},
		{"/api/v1/persistentvolumes", `"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"e.com","volumeHandle":"v"},` +
			`"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Exists"}]}]}},"volumeAttributesClassName":"c"}`, []change{
			{`{"spec":{"csi":{"volumeHandle":"w"}}}`, "spec.persistentvolumesource"}, {`{"spec":{"csi":{"controllerExpandSecretRef":{"name":"s","namespace":"n"}}}}`, ""},
			{`{"spec":{"volumeMode":"Block"}}`, "volumeMode"}, {`{"spec":{"nodeAffinity":null}}`, "nodeAffinity"}, {`{"spec":{"volumeAttributesClassName":null}}`, "spec.volumeAttributesClassName"},
			{`{"spec":{"capacity":{"storage":"2Gi"},"persistentVolumeReclaimPolicy":"Delete","storageClassName":"x"}}`, ""},
		}},
		{"/api/v1/namespaces/default/persistentvolumeclaims", `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"a"}`, []change{
			{`{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"a"}}}`, "metadata.annotations.volume.beta.kubernetes.io/storage-class"},
			{`{"spec":{"volumeAttributesClassName":"c"}}`, "spec"},
		}},
		{"/api/v1/namespaces/default/pods", `"spec":{"containers":[{"name":"m","image":"i"}]}`, []change{
			{`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"a"}}}`, "metadata.annotations[kubernetes.io/config.mirror] metadata.annotations[kubernetes.io/config.mirror] metadata.annotations[kubernetes.io/config.mirror]"},
			{`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/m":"unconfined"}}}`, "metadata.annotations[container.apparmor.security.beta.kubernetes.io/m]"},
			{`{"metadata":{"annotations":{"a":"b"}}}`, ""},
		}},
		{"/api/v1/nodes", `"spec":{"podCIDR":"10.0.0.0/24","providerID":"p","unschedulable":true}`, []change{
			{`{"spec":{"podCIDR":"10.0.1.0/24"}}`, "spec.podCIDRs"}, {`{"spec":{"providerID":"q"}}`, "spec.providerID"}, {`{"spec":{"externalID":"e"}}`, "spec.externalID"},
			{`{"spec":{"unschedulable":false,"taints":[{"key":"a","effect":"NoSchedule"}]}}`, ""},
		}},
		{"/api/v1/namespaces/default/resourcequotas", `"spec":{"scopes":["BestEffort"],"hard":{"pods":"1"}}`, []change{
			{`{"spec":{"scopes":["NotBestEffort"]}}`, "spec.scopes"}, {`{"spec":{"hard":{"pods":"2"}}}`, ""},
		}},
		{"/apis/apps/v1/namespaces/default/controllerrevisions", `"revision":1,"data":{"a":1}`, []change{{`{"data":{"a":2}}`, "data"}, {`{"revision":2}`, ""}}},
		{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `"addressType":"IPv4"`, []change{{`{"addressType":"IPv6"}`, "addressType"}}},
		{"/apis/networking.k8s.io/v1/ingressclasses", `"spec":{"controller":"e.com/a"}`, []change{
			{`{"spec":{"controller":"e.com/b"}}`, "spec.controller"}, {`{"spec":{"parameters":{"kind":"P","name":"p"}}}`, ""},
		}},
		{"/apis/networking.k8s.io/v1/servicecidrs", `"spec":{"cidrs":["10.1.0.0/24"]}`, []change{
			{`{"spec":{"cidrs":["10.2.0.0/24"]}}`, "spec.cidrs[0]"}, {`{"spec":{"cidrs":[]}}`, "spec.cidrs"}, {`{"spec":{"cidrs":["10.1.0.0/24","fd00::/112"]}}`, ""},
		}},
		{"/apis/node.k8s.io/v1/runtimeclasses", `"handler":"a"`, []change{{`{"handler":"b"}`, "handler"}}},
		{"/apis/scheduling.k8s.io/v1/priorityclasses", `"value":1`, []change{
			{`{"value":2}`, "value"}, {`{"preemptionPolicy":"Never"}`, "preemptionPolicy"}, {`{"globalDefault":false,"description":"d"}`, ""},
		}},
		{"/apis/storage.k8s.io/v1/csidrivers", `"spec":{}`, []change{
			{`{"spec":{"attachRequired":false}}`, "spec.attachedRequired"}, {`{"spec":{"volumeLifecycleModes":["Ephemeral"]}}`, "spec.volumeLifecycleModes"}, {`{"spec":{"podInfoOnMount":true}}`, ""},
		}},
		{"/apis/storage.k8s.io/v1/csinodes", `"spec":{"drivers":[{"name":"d","nodeID":"n","allocatable":{"count":1}}]}`, []change{
			{`{"spec":{"drivers":[{"name":"d","nodeID":"m"}]}}`, "spec.drivers"}, {`{"spec":{"drivers":[{"name":"d","nodeID":"n","allocatable":{"count":2}}]}}`, ""},
		}},
		{"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities", `"storageClassName":"a","capacity":"1Gi"`, []change{
			{`{"storageClassName":"b"}`, "storageClassName"}, {`{"nodeTopology":{}}`, "nodeTopology"}, {`{"capacity":"2Gi"}`, ""},
		}},
		{"/apis/storage.k8s.io/v1/volumeattachments", `"spec":{"attacher":"e.com","nodeName":"n","source":{"persistentVolumeName":"p"}}`, []change{{`{"spec":{"nodeName":"m"}}`, "spec"}}},
		{"/apis/storage.k8s.io/v1/volumeattributesclasses", `"driverName":"e.com","parameters":{"a":"b"}`, []change{
			{`{"driverName":"f.com"}`, "driverName"}, {`{"parameters":{"a":"c"}}`, "parameters"},
		}},
		{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", `"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}`, []change{
			{`{"spec":{"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"c"}}]}}}`, "spec"},
		}},
		{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", `"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}`, []change{
			{`{"spec":{"spec":{"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"c"}}]}}}}`, "spec"},
		}},
		{"/apis/resource.k8s.io/v1/resourceslices", `"spec":{"driver":"e.com","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1}}`, []change{
			{`{"spec":{"driver":"f.com"}}`, "spec.driver"}, {`{"spec":{"pool":{"name":"q"}}}`, "spec.pool.name"}, {`{"spec":{"nodeName":"m"}}`, "spec.nodeName"}, {`{"spec":{"pool":{"generation":2}}}`, ""},
		}},
		{"/apis/events.k8s.io/v1/namespaces/default/events", `"eventTime":"2026-01-01T00:00:00.000000Z","regarding":{"namespace":"default"},"action":"a","reason":"r","type":"Normal","note":"n","reportingController":"c","reportingInstance":"i"`, []change{
			{`{"note":"o","action":"b"}`, "message action"}, {`{"eventTime":"2026-01-02T00:00:00.000000Z"}`, "eventTime"}, {`{"metadata":{"labels":{"a":"b"}}}`, ""},
		}},
		{"/api/v1/namespaces/default/events", `"involvedObject":{"namespace":"default"},"message":"m"`, []change{{`{"message":"n","reason":"r"}`, ""}}},
	} {
		name := strings.ReplaceAll(c.path[1:], "/", "-")
		if made := do(t, s, http.MethodPost, c.path, `{"metadata":{"name":"`+name+`"},`+c.body+`}`); made.code != http.StatusCreated {
			t.Errorf("%s: %d %s", c.path, made.code, made.raw)
			continue
		}
		for _, change := range c.changes {
			a := do(t, s, http.MethodPatch, c.path+"/"+name, change.patch, "Content-Type", mergePatch)
			var fields []string
			details, _ := a.body["details"].(map[string]any)
			causes, _ := details["causes"].([]any)
			for _, cause := range causes {
				fields = append(fields, field(cause, "field"))
			}
			if got := strings.Join(fields, " "); got != change.fields || (a.code == http.StatusOK) != (change.fields == "") {
				t.Errorf("%s of %s: %d %q, want %q", change.patch, c.path, a.code, got, change.fields)
			}
		}
	}
}
