package conformance

const (
	jobStart = `"startTime":"2026-01-01T00:00:00Z"`
	jobEnd   = `"completionTime":"2026-01-01T00:01:00Z"`
)

// status returns a request to change the status of an object.
func (r resource) status(name, what, fields string) exchange {
	return change(r.kind+" "+name+" status: "+what, r.path+"/"+name+"/status", mergePatch, `{"status":{`+fields+`}}`)
}

// conditions returns conditions of these types that are true.
func conditions(types ...string) string {
	text := ""
	for _, t := range types {
		text += `,{"type":"` + t + `","status":"True"}`
	}
	return `"conditions":[` + text[1:] + `]`
}

var kindStatuses = []exchange{
	job.spec("stated", never),
	job.status("stated", "only the condition", conditions("Complete")),
	job.status("stated", "failed and complete", conditions("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")),
	job.status("stated", "negative", `"active":-1,"succeeded":-1,"failed":-1,"ready":-1,"terminating":-1`),
	job.status("stated", "uncounted pods", `"uncountedTerminatedPods":{"succeeded":["a",""],"failed":["a"]}`),
	job.status("stated", "indexes", `"completedIndexes":"0","failedIndexes":"0"`),
	job.status("stated", "active", jobStart+`,"active":1,"ready":1`),
	job.status("stated", "too many are ready", `"ready":2`),
	job.status("stated", "another start", `"startTime":"2026-01-02T00:00:00Z"`),
	job.status("stated", "an end without a condition", jobEnd),
	job.status("stated", "complete with active pods", jobEnd+`,`+conditions("SuccessCriteriaMet", "Complete")),
	job.status("stated", "an end before the start", `"active":0,"ready":0,"completionTime":"2025-01-01T00:00:00Z",`+conditions("SuccessCriteriaMet", "Complete")),
	job.status("stated", "complete", `"active":0,"ready":0,"succeeded":1,`+jobEnd+`,`+conditions("SuccessCriteriaMet", "Complete")),
	job.status("stated", "less", `"succeeded":0`),
	job.status("stated", "another end", `"completionTime":"2026-01-03T00:00:00Z"`),
	job.status("stated", "not complete", `"conditions":null`),
	job.status("stated", "terminating", `"terminating":1`),
	job.spec("fails", never),
	job.status("fails", "without a target", jobStart+`,`+conditions("Failed")),
	job.status("fails", "failed", jobStart+`,"failed":1,`+conditions("FailureTarget", "Failed")),
	job.status("fails", "succeeds", conditions("FailureTarget", "Failed", "SuccessCriteriaMet")),
	job.spec("counted", `"completionMode":"Indexed","completions":5,"parallelism":2,"backoffLimitPerIndex":1,`+never),
	job.status("counted", "too large", `"completedIndexes":"0,5"`),
	job.status("counted", "no order", `"completedIndexes":"3,1","failedIndexes":"2-1"`),
	job.status("counted", "no numbers", `"completedIndexes":"a","failedIndexes":"1-2-3"`),
	job.status("counted", "both", `"completedIndexes":"0,2-4","failedIndexes":"1,3"`),
	job.status("counted", "right", `"completedIndexes":"0,2-3","failedIndexes":"1,4"`),
	service.spec("stated-cluster", `"ports":[{"port":80}]`),
	service.status("stated-cluster", "an address", `"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}`),
	service.spec("stated-balancer", `"type":"LoadBalancer","ports":[{"port":80}]`),
	service.status("stated-balancer", "bad addresses", `"loadBalancer":{"ingress":[{"ip":"bad"},{"ip":"192.0.02.1"},{"hostname":"192.0.2.1"},{"hostname":"a_b"},{"hostname":"a.example.com","ipMode":"VIP"}]}`),
	service.status("stated-balancer", "an unknown mode", `"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"Some"}]}`),
	service.status("stated-balancer", "addresses", `"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"Proxy"},{"hostname":"a.example.com"}]}`),
	ingress.spec("stated", `"defaultBackend":{"service":{"name":"a","port":{"number":80}}}`),
	ingress.status("stated", "bad addresses", `"loadBalancer":{"ingress":[{"ip":"bad"},{"hostname":"192.0.2.1"}]}`),
	ingress.status("stated", "addresses", `"loadBalancer":{"ingress":[{"ip":"192.0.2.1"},{"hostname":"a.example.com"}]}`),
}

// sub returns a request to change a pod by a subresource.
func (r resource) sub(name, subresource, what, body string) exchange {
	return change(r.kind+" "+name+" "+subresource+": "+what, r.path+"/"+name+"/"+subresource, strategicPatch, body)
}

// debug returns a change of a pod's ephemeral containers.
func debug(what, fields string) exchange {
	return pod.sub("debugged", "ephemeralcontainers", what, `{"spec":{"ephemeralContainers":[{`+fields+`}]}}`)
}

// sized returns a change of the resources of a pod's container.
func sized(what, resources string) exchange {
	return pod.sub("sized", "resize", what, `{"spec":{"containers":[{"name":"main","resources":{`+resources+`}}]}}`)
}

var podChanges = []exchange{
	inPod("debugged", ""),
	debug("no image", `"name":"a"`),
	debug("no name", `"image":"example.com/a"`),
	debug("the name of a container", `"name":"main","image":"example.com/a"`),
	debug("an unknown target", `"name":"a","image":"example.com/a","targetContainerName":"z"`),
	debug("fields of other containers", `"name":"a","image":" example.com/a","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1"}},"lifecycle":{"preStop":{"sleep":{"seconds":1}}},"livenessProbe":{"tcpSocket":{"port":80}}`),
	debug("a mount", `"name":"a","image":"example.com/a","volumeMounts":[{"name":"v","mountPath":"/v","subPath":"s"}]`),
	debug("one", `"name":"a","image":"example.com/a","targetContainerName":"main","env":[{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`),
	debug("another", `"name":"b","image":"example.com/b:1"`),
	change("Pod debugged ephemeralcontainers: none", pods+"/debugged/ephemeralcontainers", mergePatch, `{"spec":{"ephemeralContainers":null}}`),
	pod.spec("debugged-early", `"ephemeralContainers":[{"name":"a","image":"example.com/a"}],"containers":[`+container("")+`]`),
	inPod("sized", `"resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"2"}}`),
	sized("negative", `"requests":{"cpu":"-1"}`),
	sized("more than the limit", `"requests":{"cpu":"3"}`),
	sized("storage", `"requests":{"ephemeral-storage":"1Gi"}`),
	sized("another class", `"requests":{"cpu":"2"},"limits":{"memory":"1Gi"}`),
	sized("larger", `"requests":{"cpu":"1500m"},"limits":{"cpu":"3"}`),
	sized("a removed request", `"requests":{"memory":null}`),
	pod.sub("sized", "resize", "another container", `{"spec":{"containers":[{"name":"other","image":"example.com/other","resources":{}}]}}`),
	pod.sub("sized", "resize", "another image", `{"spec":{"containers":[{"name":"main","image":"example.com/other"}]}}`),
	pod.sub("sized", "resize", "a restart", `{"spec":{"containers":[{"name":"main","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]}]}}`),
	inPod("sized-least", ""),
	pod.sub("sized-least", "resize", "a request", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]}}`),
}
