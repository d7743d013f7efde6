package conformance

import (
	"fmt"
	"slices"
)

// changes sends merge patches of one object of a kind, each of which changes one field, to find the
// immutable ones.
func changes(path, body string, patches []string) []exchange {
	object := path + "/{ns}-fixed"
	exchanges := []exchange{{name: path, method: "POST", path: path, body: `{"metadata":{"name":"{ns}-fixed"},` + body + `}`}}
	for i, patch := range patches {
		exchanges = append(exchanges, exchange{name: fmt.Sprint(path, " ", i, " ", patch), method: "PATCH", path: object, typ: mergePatch, body: patch})
	}
	return append(exchanges, exchange{name: path + " delete", method: "DELETE", path: object})
}

// immutable are the fields of the built-in kinds that the other topics do not change.
var immutable = func() (all []exchange) {
	for _, c := range []struct {
		path, body string
		patches    []string
	}{
		{"/apis/storage.k8s.io/v1/storageclasses", `"provisioner":"e.com/p","parameters":{"a":"b"}`, []string{
			`{"provisioner":"e.com/q"}`, `{"parameters":{"a":"c"}}`, `{"reclaimPolicy":"Retain"}`,
			`{"volumeBindingMode":"WaitForFirstConsumer"}`, `{"allowVolumeExpansion":true,"reclaimPolicy":null}`,
			`{"provisioner":"e.com/q","parameters":null}`,
		}},
		{"/api/v1/persistentvolumes", `"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"e.com","volumeHandle":"v"},` +
			`"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Exists"}]}]}},"volumeAttributesClassName":"c"}`, []string{
			`{"spec":{"csi":{"volumeHandle":"w"}}}`, `{"spec":{"csi":{"controllerExpandSecretRef":{"name":"s","namespace":"n"}}}}`,
			`{"spec":{"volumeMode":"Block"}}`, `{"spec":{"nodeAffinity":null}}`, `{"spec":{"volumeAttributesClassName":null}}`,
			`{"spec":{"capacity":{"storage":"2Gi"},"persistentVolumeReclaimPolicy":"Delete","storageClassName":"x"}}`,
		}},
		{"/api/v1/namespaces/{ns}/persistentvolumeclaims", `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"a"}`, []string{
			`{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"a"}}}`,
		}},
		{"/api/v1/namespaces/{ns}/pods", `"spec":{"containers":[{"name":"m","image":"i"}]}`, []string{
			`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"a"}}}`, `{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/m":"unconfined"}}}`,
			`{"metadata":{"annotations":{"a":"b"}}}`,
		}},
		{"/api/v1/nodes", `"spec":{"podCIDR":"10.0.0.0/24","providerID":"p","unschedulable":true}`, []string{
			`{"spec":{"podCIDR":"10.0.1.0/24"}}`, `{"spec":{"providerID":"q"}}`, `{"spec":{"externalID":"e"}}`,
			`{"spec":{"unschedulable":false,"taints":[{"key":"a","effect":"NoSchedule"}]}}`,
		}},
		{"/api/v1/namespaces/{ns}/resourcequotas", `"spec":{"scopes":["BestEffort"],"hard":{"pods":"1"}}`, []string{
			`{"spec":{"scopes":["NotBestEffort"]}}`, `{"spec":{"hard":{"pods":"2"}}}`,
		}},
		{"/apis/apps/v1/namespaces/{ns}/controllerrevisions", `"revision":1,"data":{"a":1}`, []string{`{"data":{"a":2}}`, `{"revision":2}`}},
		{"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", `"addressType":"IPv4"`, []string{`{"addressType":"IPv6"}`}},
		{"/apis/networking.k8s.io/v1/ingressclasses", `"spec":{"controller":"e.com/a"}`, []string{
			`{"spec":{"controller":"e.com/b"}}`, `{"spec":{"parameters":{"kind":"P","name":"p"}}}`,
		}},
		{"/apis/networking.k8s.io/v1/servicecidrs", `"spec":{"cidrs":["10.1.0.0/24"]}`, []string{
			`{"spec":{"cidrs":["10.2.0.0/24"]}}`, `{"spec":{"cidrs":[]}}`, `{"spec":{"cidrs":["10.1.0.0/24","fd00::/112"]}}`,
		}},
		{"/apis/node.k8s.io/v1/runtimeclasses", `"handler":"a"`, []string{`{"handler":"b"}`}},
		{"/apis/scheduling.k8s.io/v1/priorityclasses", `"value":1`, []string{
			`{"value":2}`, `{"preemptionPolicy":"Never"}`, `{"globalDefault":false,"description":"d"}`,
		}},
		{"/apis/storage.k8s.io/v1/csidrivers", `"spec":{}`, []string{
			`{"spec":{"attachRequired":false}}`, `{"spec":{"volumeLifecycleModes":["Ephemeral"]}}`, `{"spec":{"podInfoOnMount":true}}`,
		}},
		{"/apis/storage.k8s.io/v1/csinodes", `"spec":{"drivers":[{"name":"d","nodeID":"n","allocatable":{"count":1}}]}`, []string{
			`{"spec":{"drivers":[{"name":"d","nodeID":"m"}]}}`, `{"spec":{"drivers":[{"name":"d","nodeID":"n","allocatable":{"count":2}}]}}`,
		}},
		{"/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities", `"storageClassName":"a","capacity":"1Gi"`, []string{
			`{"storageClassName":"b"}`, `{"nodeTopology":{}}`, `{"capacity":"2Gi"}`,
		}},
		{"/apis/storage.k8s.io/v1/volumeattachments", `"spec":{"attacher":"e.com","nodeName":"n","source":{"persistentVolumeName":"p"}}`, []string{`{"spec":{"nodeName":"m"}}`}},
		{"/apis/storage.k8s.io/v1/volumeattributesclasses", `"driverName":"e.com","parameters":{"a":"b"}`, []string{
			`{"driverName":"f.com"}`, `{"parameters":{"a":"c"}}`,
		}},
		{"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims", `"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}`, []string{
			`{"spec":{"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"c"}}]}}}`,
		}},
		{"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaimtemplates", `"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}`, []string{
			`{"spec":{"spec":{"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"c"}}]}}}}`,
		}},
		{"/apis/resource.k8s.io/v1/resourceslices", `"spec":{"driver":"e.com","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1}}`, []string{
			`{"spec":{"driver":"f.com"}}`, `{"spec":{"pool":{"name":"q"}}}`, `{"spec":{"nodeName":"m"}}`, `{"spec":{"pool":{"generation":2}}}`,
		}},
		{"/apis/events.k8s.io/v1/namespaces/{ns}/events", `"eventTime":"2026-01-01T00:00:00.000000Z","regarding":{"namespace":"{ns}"},"action":"a","reason":"r","type":"Normal","note":"n","reportingController":"c","reportingInstance":"i"`, []string{
			`{"note":"o","action":"b"}`, `{"eventTime":"2026-01-02T00:00:00.000000Z"}`, `{"metadata":{"labels":{"a":"b"}}}`,
		}},
		{"/api/v1/namespaces/{ns}/events", `"involvedObject":{"namespace":"{ns}"},"message":"m"`, []string{`{"message":"n","reason":"r"}`}},
	} {
		all = slices.Concat(all, changes(c.path, c.body, c.patches))
	}
	return all
}()

const (
	hpaV1 = "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers"
	hpaV2 = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"
)

// autoscalers are written in one version and read in the other.
var autoscalers = []exchange{
	{name: "create in v1", method: "POST", path: hpaV1, query: "fieldManager=one", body: `{"metadata":{"name":"a"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":3}}`},
	{name: "read in v2", path: hpaV2 + "/a"},
	change("all metrics", hpaV2+"/a", mergePatch, `{"metadata":{"annotations":{"a":"b"}},"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}},"metrics":[
		{"type":"Pods","pods":{"metric":{"name":"qps","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"5"}}},
		{"type":"Object","object":{"metric":{"name":"o"},"describedObject":{"apiVersion":"v1","kind":"Service","name":"s"},"target":{"type":"Value","value":"3"}}},
		{"type":"Object","object":{"metric":{"name":"o"},"describedObject":{"apiVersion":"v1","kind":"Service","name":"s"},"target":{"type":"AverageValue","averageValue":"3"}}},
		{"type":"External","external":{"metric":{"name":"e"},"target":{"type":"AverageValue","averageValue":"3"}}},
		{"type":"ContainerResource","containerResource":{"name":"cpu","container":"c","target":{"type":"Utilization","averageUtilization":9}}},
		{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}},
		{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`),
	change("the status", hpaV2+"/a/status", mergePatch, `{"status":{"currentReplicas":2,"desiredReplicas":2,"conditions":[{"type":"AbleToScale","status":"True","reason":"r","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}],"currentMetrics":[
		{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":7,"averageValue":"70m"}}},
		{"type":"Pods","pods":{"metric":{"name":"qps"},"current":{"averageValue":"5"}}},
		{"type":"Object","object":{"metric":{"name":"o"},"describedObject":{"kind":"Service","name":"s"},"current":{"value":"3"}}},
		{"type":"External","external":{"metric":{"name":"e"},"current":{"averageValue":"3"}}},
		{"type":"ContainerResource","containerResource":{"name":"cpu","container":"c","current":{"averageUtilization":9}}}]}}`),
	{name: "read in v1", path: hpaV1 + "/a"},
	{name: "list in v1", path: hpaV1},
	{name: "a table in v1", path: hpaV1, accept: asTable},
	change("a merge in v1", hpaV1+"/a", mergePatch, `{"spec":{"targetCPUUtilizationPercentage":60}}`),
	change("a merge of the annotations", hpaV1+"/a", mergePatch, `{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":null}}}`),
	{name: "an apply in v1", method: "PATCH", path: hpaV1 + "/a", query: "fieldManager=two&force=true", typ: applyPatch, body: `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":5}}`},
	{name: "read in v2 again", path: hpaV2 + "/a"},
	change("a bad one", hpaV1+"/a", mergePatch, `{"spec":{"maxReplicas":0,"targetCPUUtilizationPercentage":0}}`),
	{name: "a watch in v1", path: hpaV1, query: "watch=1&timeoutSeconds=1&resourceVersion=0", events: 1},
	{name: "delete in v1", method: "DELETE", path: hpaV1 + "/a"},
}
