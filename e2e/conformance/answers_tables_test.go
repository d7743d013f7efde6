package conformance

var (
	endpointSlice = resource{"discovery.k8s.io/v1", "EndpointSlice", "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"}
	quota         = resource{"v1", "ResourceQuota", "/api/v1/namespaces/{ns}/resourcequotas"}
	disruptions   = resource{"policy/v1", "PodDisruptionBudget", "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"}
	volume        = resource{"v1", "PersistentVolume", "/api/v1/persistentvolumes"}
	storageClass  = resource{"storage.k8s.io/v1", "StorageClass", "/apis/storage.k8s.io/v1/storageclasses"}
	node          = resource{"v1", "Node", "/api/v1/nodes"}
)

// table returns a request for the objects of a kind as a table.
func (r resource) table() exchange {
	return exchange{name: "a table of " + r.kind + " objects", path: r.path, query: "includeObject=None", accept: asTable}
}

// row returns a request for the cluster-scoped object with the name of the namespace, as a table.
func (r resource) row() exchange {
	row := r.table()
	row.path += "/{ns}"
	return row
}

// meta returns a request to create an object, of which the response has only metadata.
func (r resource) meta(name, fields string) exchange {
	e := r.create(name, fields)
	e.accept = asMetadata
	return e
}

// tables are the tables of built-in kinds, in which kubectl prints them.
var tables = []exchange{
	{name: "create a service with an address", method: "POST", path: service.path, save: "svc", body: service.spec("a", `"type":"NodePort","selector":{"a":"b"},"ports":[{"name":"t","port":80,"nodePort":30010},{"name":"u","port":53,"nodePort":30011,"protocol":"UDP"}]`).body},
	service.spec("b", `"type":"ExternalName","externalName":"example.com"`),
	service.spec("c", `"clusterIP":"None"`),
	service.table(),
	endpoints.create("none", `"subsets":[]`),
	endpoints.create("some", `"subsets":[{"addresses":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}],"ports":[{"name":"t","port":80},{"name":"u","port":53}]}]`),
	endpoints.create("without-ports", `"subsets":[{"addresses":[{"ip":"10.0.0.1"}]}]`),
	endpoints.table(),
	endpointSlice.create("none", `"addressType":"IPv4","endpoints":null`),
	endpointSlice.create("some", `"addressType":"IPv4","ports":[{"name":"t","port":80,"protocol":"TCP"},{"name":"u","protocol":"TCP"}],"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]},{"addresses":["10.0.0.3"]},{"addresses":["10.0.0.4"]}]`),
	endpointSlice.merge("none", "a label", `{"metadata":{"labels":{"a":"b"}}}`),
	endpointSlice.merge("none", "an annotation", `{"metadata":{"annotations":{"a":"b"}}}`),
	endpointSlice.merge("none", "an endpoint", `{"endpoints":[{"addresses":["10.0.0.1"]}]}`),
	endpointSlice.table(),
	ingress.spec("a", `"defaultBackend":{"service":{"name":"a","port":{"number":80}}}`),
	ingress.spec("b", `"ingressClassName":"c","tls":[{"hosts":["a.example.com"]}],"defaultBackend":{"service":{"name":"a","port":{"number":80}}},"rules":[{"host":"a.example.com"},{"host":"b.example.com"},{"host":"c.example.com"},{"host":"d.example.com"}]`),
	ingress.status("b", "addresses", `"loadBalancer":{"ingress":[{"ip":"192.0.2.2"},{"ip":"192.0.2.1"},{"hostname":"a.example.com"}]}`),
	ingress.table(),
	{name: "create a claim", method: "POST", path: claim.path, accept: asMetadata, query: "fieldManager=x", body: claim.spec("a", `"volumeName":"v","storageClassName":"fast","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}`).body},
	{name: "bind the claim", method: "PATCH", path: claim.path + "/a/status", accept: asMetadata, typ: mergePatch, body: `{"status":{"phase":"Bound","capacity":{"storage":"2Gi"},"accessModes":["ReadWriteOnce","ReadOnlyMany"]}}`},
	{name: "create another claim", method: "POST", path: claim.path, accept: asMetadata, body: claim.spec("b", `"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}`).body},
	claim.table(),
	autoscaler.spec("a", `"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}},{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"10"}}},{"type":"External","external":{"metric":{"name":"x"},"target":{"type":"Value","value":"7"}}}]`),
	autoscaler.status("a", "current", `"currentReplicas":2,"desiredReplicas":2,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":40}}}]`),
	autoscaler.spec("b", `"maxReplicas":5,"minReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"External","external":{"metric":{"name":"x"},"target":{"type":"AverageValue","averageValue":"7"}}},{"type":"ContainerResource","containerResource":{"name":"memory","container":"c","target":{"type":"AverageValue","averageValue":"1Gi"}}}]`),
	autoscaler.table(),
	account.create("a", `"secrets":[{"name":"s"}]`),
	account.table(),
	statefulSet.spec("a", `"replicas":3,`+template("")),
	statefulSet.table(),
	daemonSet.spec("a", template(`"nodeSelector":{"disk":"ssd"}`)),
	daemonSet.status("a", "numbers", `"desiredNumberScheduled":5,"currentNumberScheduled":4,"numberMisscheduled":0,"numberReady":3,"updatedNumberScheduled":2,"numberAvailable":1`),
	daemonSet.table(),
	replicaSet.spec("a", template("")),
	replicaSet.table(),
	scheduled("a", "@daily", `"timeZone":"Etc/UTC"`),
	scheduled("b", "@daily", `"suspend":true`),
	cronJob.status("b", "a schedule", `"lastScheduleTime":"2026-01-01T00:00:00Z","active":[{"kind":"Job","name":"j"}]`),
	cronJob.table(),
	job.spec("complete", `"completions":2,`+never),
	job.status("complete", "complete", `"succeeded":2,`+jobStart+`,`+jobEnd+`,`+conditions("SuccessCriteriaMet", "Complete")),
	job.spec("failed", `"parallelism":3,`+never),
	job.status("failed", "failed", `"failed":1,`+jobStart+`,`+conditions("FailureTarget", "Failed")),
	job.spec("suspended", `"suspend":true,`+never),
	job.status("suspended", "suspended", conditions("Suspended")),
	job.spec("running", never),
	job.table(),
	quota.meta("a", `"spec":{"hard":{"pods":"3"}}`),
	{name: "use the quota", method: "PATCH", path: quota.path + "/a/status", accept: asMetadata, typ: mergePatch, body: `{"status":{"hard":{"pods":"3","limits.cpu":"2","requests.cpu":"1"},"used":{"pods":"1","limits.cpu":"500m","requests.cpu":"0"}}}`},
	quota.table(),
	disruptions.meta("a", `"spec":{"minAvailable":"50%","selector":{}}`),
	disruptions.meta("b", `"spec":{"maxUnavailable":1,"selector":{}}`),
	{name: "allow disruptions", method: "PATCH", path: disruptions.path + "/a/status", accept: asMetadata, typ: mergePatch, body: `{"status":{"disruptionsAllowed":2}}`},
	disruptions.table(),
	lease.meta("a", `"spec":{"holderIdentity":"first"}`),
	lease.meta("b", `"spec":{}`),
	lease.table(),
	role.meta("a", `"rules":[]`),
	role.table(),
	roleBinding.meta("a", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"}`),
	roleBinding.table(),
	clusterRole.meta("{ns}", `"rules":[]`),
	clusterRole.row(),
	clusterBinding.meta("{ns}", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"a"},"subjects":[{"kind":"ServiceAccount","namespace":"a","name":"b"},{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"c"},{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"d"},{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"e"}]`),
	clusterBinding.row(),
	volume.meta("{ns}", `"spec":{"capacity":{"storage":"2Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"],"storageClassName":"fast","persistentVolumeReclaimPolicy":"Retain","volumeMode":"Block","claimRef":{"namespace":"a","name":"b"},"csi":{"driver":"d.example.com","volumeHandle":"h"}}`),
	{name: "bind the volume", method: "PATCH", path: volume.path + "/{ns}/status", accept: asMetadata, typ: mergePatch, body: `{"status":{"phase":"Bound","reason":"R"}}`},
	volume.row(),
	storageClass.meta("{ns}", `"provisioner":"example.com/disk","allowVolumeExpansion":true,"volumeBindingMode":"WaitForFirstConsumer"`),
	{name: "make the class the default", method: "PATCH", path: storageClass.path + "/{ns}", accept: asMetadata, typ: mergePatch, body: `{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}`},
	storageClass.row(),
	node.meta("{ns}", `"spec":{"unschedulable":true}`),
	{name: "give the node roles", method: "PATCH", path: node.path + "/{ns}", accept: asMetadata, typ: mergePatch, body: `{"metadata":{"labels":{"node-role.kubernetes.io/worker":"","kubernetes.io/role":"disk"}}}`},
	{name: "describe the node", method: "PATCH", path: node.path + "/{ns}/status", accept: asMetadata, typ: mergePatch, body: `{"status":{"addresses":[{"type":"Hostname","address":"a"},{"type":"InternalIP","address":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1","osImage":"Linux","kernelVersion":"6","architecture":"amd64","machineID":"","systemUUID":"","bootID":"","containerRuntimeVersion":"","operatingSystem":"","kubeProxyVersion":""}}}`},
	node.row(),
}
