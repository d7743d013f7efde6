package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const tableObjects = `
{apiVersion: v1, kind: Service, metadata: {name: port}, spec: {type: NodePort, selector: {a: b}, ports: [{name: t, port: 80, nodePort: 30080}, {name: u, port: 53, nodePort: 30053, protocol: UDP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: balanced}, spec: {type: LoadBalancer, clusterIP: 10.96.1.7, externalIPs: [192.0.2.9], ports: [{port: 80, nodePort: 30081}]}, status: {loadBalancer: {ingress: [{ip: 192.0.2.2}, {ip: 192.0.2.1}]}}}
---
{apiVersion: v1, kind: Service, metadata: {name: pending}, spec: {type: LoadBalancer, clusterIP: 10.96.1.8, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: outside}, spec: {type: ExternalName, externalName: example.com}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: e}, subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], ports: [{port: 80}, {name: u, port: 53}]}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s}, addressType: IPv4, ports: [{port: 80}, {name: u}, {}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {ingressClassName: c, tls: [{}], rules: [{host: a.example.com}, {host: b.example.com}, {host: c.example.com}, {host: d.example.com}]}, status: {loadBalancer: {ingress: [{hostname: lb.example.com}]}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, spec: {volumeName: v, storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Bound, capacity: {storage: 2Gi}, accessModes: [ReadWriteOnce, ReadOnlyMany]}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, metrics: [
  {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}, {type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 10}}},
  {type: External, external: {metric: {name: x}, target: {type: Value, value: 7}}}]},
  status: {currentReplicas: 2, currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageUtilization: 40}}}]}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: t}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: m, image: i}, {name: o, image: j}]}}}, status: {replicas: 2, readyReplicas: 2}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {disk: ssd}, containers: [{name: m, image: i}]}}}, status: {desiredNumberScheduled: 5, currentNumberScheduled: 4, numberReady: 3, updatedNumberScheduled: 2, numberAvailable: 1}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: "@daily", timeZone: Etc/UTC, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}}}, status: {active: [{}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: done}, spec: {completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}, status: {succeeded: 2, startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:01:30Z", conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: failed}, spec: {parallelism: 3, template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}, status: {conditions: [{type: FailureTarget, status: "True"}, {type: Failed, status: "True"}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: paused}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}, status: {conditions: [{type: Suspended, status: "True"}]}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 2Gi}, accessModes: [ReadWriteMany, ReadWriteOnce], storageClassName: fast, persistentVolumeReclaimPolicy: Retain, volumeMode: Block, claimRef: {namespace: shop, name: data}, hostPath: {path: /data}}, status: {phase: Bound, reason: R}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: example.com/disk, allowVolumeExpansion: true, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 3}}, status: {hard: {pods: 3, limits.cpu: 2, requests.cpu: 1}, used: {pods: 1, limits.cpu: 500m, requests.cpu: 0}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: least}, spec: {minAvailable: 50%, selector: {}}, status: {disruptionsAllowed: 2}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: most}, spec: {maxUnavailable: 1, selector: {}}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: leader}, spec: {holderIdentity: first}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: free}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: ServiceAccount, namespace: shop, name: a}, {kind: User, apiGroup: rbac.authorization.k8s.io, name: ann}, {kind: User, apiGroup: rbac.authorization.k8s.io, name: ben}, {kind: Group, apiGroup: rbac.authorization.k8s.io, name: team}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}}
---
{apiVersion: v1, kind: Node, metadata: {name: worker, labels: {node-role.kubernetes.io/worker: "", kubernetes.io/role: disk}}, spec: {unschedulable: true}, status: {addresses: [{type: Hostname, address: worker}, {type: InternalIP, address: 10.0.0.1}], conditions: [{type: Ready, status: "True"}], nodeInfo: {kubeletVersion: v1, osImage: Linux, kernelVersion: "6", architecture: amd64}}}
`

// tableOf returns the cells of a table with one row, with the age as "…".
func tableOf(t *testing.T, s *apiserver.Server, path string) string {
	t.Helper()
	a := do(t, s, http.MethodGet, path, "", "Accept", asTable)
	var table metav1.Table
	if err := json.Unmarshal([]byte(a.raw), &table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("%s: %v %s", path, err, a.raw)
	}
	if len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
		t.Fatalf("%s: the cells %v and %d columns", path, table.Rows[0].Cells, len(table.ColumnDefinitions))
	}
	var cells []string
	for i, c := range table.Rows[0].Cells {
		if table.ColumnDefinitions[i].Name == "Age" {
			c = "…"
		}
		cells = append(cells, fmt.Sprint(c))
	}
	return strings.Join(cells, "|")
}

func TestTableCellsAreThoseOfKubeAPIServer(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	if err := s.LoadYAML([]byte(tableObjects)); err != nil {
		t.Fatal(err)
	}
	uid := func(job string) string {
		return "batch.kubernetes.io/controller-uid=" + get(t, s, "/apis/batch/v1/namespaces/default/jobs/"+job).at("metadata", "uid")
	}
	const rbac, leases, policy = "/apis/rbac.authorization.k8s.io/v1", "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	const core, apps, batch = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
	for path, want := range map[string]string{
		core + "/services/port":                       "port|NodePort|" + get(t, s, core+"/services/port").at("spec", "clusterIP") + "|<none>|80:30080/TCP,53:30053/UDP|…|a=b",
		core + "/services/balanced":                   "balanced|LoadBalancer|10.96.1.7|192.0.2.1,192.0.2.2,192.0.2.9|80:30081/TCP|…|<none>",
		core + "/services/pending":                    "pending|LoadBalancer|10.96.1.8|<pending>|80/TCP|…|<none>",
		core + "/services/outside":                    "outside|ExternalName|<none>|example.com|<none>|…|<none>",
		core + "/endpoints/e":                         "e|10.0.0.1:80,10.0.0.2:80,10.0.0.1:53 + 1 more...|…",
		core + "/persistentvolumeclaims/p":            "p|Bound|v|2Gi|RWO,ROX|fast|<unset>|…|Filesystem",
		apps + "/statefulsets/t":                      "t|2/3|…|m,o|i,j",
		apps + "/daemonsets/d":                        "d|5|4|3|2|1|disk=ssd|…|m|i|a=b",
		batch + "/cronjobs/c":                         "c|@daily|Etc/UTC|False|1|<none>|…|m|i|<none>",
		batch + "/jobs/done":                          "done|Complete|2/2|90s|…|m|i|" + uid("done"),
		batch + "/jobs/failed":                        "failed|Failed|0/1 of 3||…|m|i|" + uid("failed"),
		batch + "/jobs/paused":                        "paused|Suspended|0/1||…|m|i|" + uid("paused"),
		"/api/v1/persistentvolumes/v":                 "v|2Gi|RWO,RWX|Retain|Bound|shop/data|fast|<unset>|R|…|Block",
		"/apis/storage.k8s.io/v1/storageclasses/fast": "fast (default)|example.com/disk|Delete|WaitForFirstConsumer|true|…",
		core + "/resourcequotas/q":                    "q|pods: 1/3, requests.cpu: 0/1|limits.cpu: 500m/2|…",
		policy + "/least":                             "least|50%|N/A|2|…",
		policy + "/most":                              "most|N/A|1|0|…",
		leases + "/leader":                            "leader|first|…",
		leases + "/free":                              "free||…",
		rbac + "/namespaces/default/roles/r":          "r|" + get(t, s, rbac+"/namespaces/default/roles/r").at("metadata", "creationTimestamp"),
		rbac + "/namespaces/default/rolebindings/b":   "b|Role/r|…|||",
		rbac + "/clusterrolebindings/b":               "b|ClusterRole/view|…|ann, ben|team|shop/a",
		"/api/v1/nodes/worker":                        "worker|Ready,SchedulingDisabled|disk,worker|…|v1|10.0.0.1|<none>|Linux|6 (amd64)|<unknown>",
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/s":      "s|IPv4|80,u,*|10.0.0.1,10.0.0.2|…",
		"/apis/networking.k8s.io/v1/namespaces/default/ingresses/i":          "i|c|a.example.com,b.example.com,c.example.com + 1 more...|lb.example.com|80, 443|…",
		"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h": "h|Deployment/d|cpu: 40%/80%, <unknown>/10 + 1 more...|1|5|2|…",
	} {
		if got := tableOf(t, s, path); got != want {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
}

// The columns are those of the cells in every version.
func TestTablesOfOtherVersions(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	for path, body := range map[string]string{
		"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"}}`,
		"/apis/events.k8s.io/v1/namespaces/default/events":                 `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"a"},"type":"Normal","reason":"R"}`,
	} {
		if a := do(t, s, http.MethodPost, path, body); a.code != http.StatusCreated {
			t.Fatal(a.raw)
		}
		tableOf(t, s, path)
	}
}
