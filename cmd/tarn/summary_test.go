package main

import (
	"strings"
	"testing"

	"github.com/tarnproject/tarn/object"
)

func TestSummaryShowsTheStateOfAnObject(t *testing.T) {
	for _, c := range []struct{ group, kind, body, want string }{
		{"", "Pod", `"spec":{"containers":[{},{}]},"status":{"phase":"Running","containerStatuses":[{"ready":true,"restartCount":2},{"ready":false,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}`, "CrashLoopBackOff, 1/2 ready, 2 restarts"},
		{"", "Pod", `"spec":{"containers":[{}]},"status":{"phase":"Failed","reason":"Evicted"}`, "Evicted, 0/1 ready"},
		{"", "Pod", `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}`, "Terminating, 0/0 ready"},
		{"", "Node", `"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}`, "Ready, SchedulingDisabled"},
		{"", "Node", `"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletDown"}]}`, "NotReady (KubeletDown)"},
		{"", "Node", `"status":{}`, "Unknown"},
		{"", "Service", `"spec":{"clusterIP":"10.0.0.1"}`, "ClusterIP 10.0.0.1"},
		{"", "Event", `"type":"Warning","reason":"BackOff","involvedObject":{"kind":"Pod","name":"web"},"message":"again"`, "Warning BackOff pod/web: again"},
		{"events.k8s.io", "Event", `"type":"Normal","reason":"Up","regarding":{"kind":"Node","name":"n"},"note":"yes"`, "Normal Up node/n: yes"},
		{"apps", "Deployment", `"status":{"readyReplicas":1,"updatedReplicas":1}`, "1/1 ready, 1 up to date"},
		{"apps", "ReplicaSet", `"spec":{"replicas":0},"status":{}`, "0/0 ready"},
		{"apps", "Deployment", `"spec":{"replicas":2},"status":{"updatedReplicas":0,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`, "0/2 ready, 0 up to date, ProgressDeadlineExceeded"},
		{"apps", "DaemonSet", `"status":{"numberReady":2,"desiredNumberScheduled":3}`, "2/3 ready"},
		{"batch", "Job", `"status":{"active":1,"failed":2}`, "1 active, 0 succeeded, 2 failed"},
		{"batch", "Job", `"status":{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}`, "Failed (BackoffLimitExceeded)"},
		{"batch", "CronJob", `"spec":{"schedule":"@daily","suspend":true}`, "@daily, suspended"},
		{"coordination.k8s.io", "Lease", `"spec":{"holderIdentity":"me"}`, "held by me"},
		{"coordination.k8s.io", "Lease", `"spec":{}`, "not held"},
		{"discovery.k8s.io", "EndpointSlice", `"endpoints":[{},{}]`, "2 endpoints"},
		{"example.com", "Widget", `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"conditions":[{"type":"Ready","status":"False","reason":"Wait"}]}`, "Terminating, NotReady (Wait)"},
		{"example.com", "Widget", `"status":{"phase":"Bound"}`, "Bound"},
		{"example.com", "Widget", `"status":{"conditions":[{"type":"Odd","status":"True"}]}`, ""},
		{"example.com", "Widget", `"status":"fine","spec":[]`, ""},
		{"", "Pod", `"spec":"x","status":["y"]`, "Unknown, 0/0 ready"},
	} {
		body := c.body
		if !strings.Contains(body, `"metadata"`) {
			body += `,"metadata":{"name":"a"}`
		}
		obj := parse(t, `{"apiVersion":"v1","kind":"`+c.kind+`",`+body+`}`)
		if got := summary(object.Resource{Group: c.group, Kind: c.kind}, obj); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.kind, c.body, got, c.want)
		}
	}
}
