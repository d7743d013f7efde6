package clients

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/workloads"
)

const app = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: main, image: "example.com/shop:1"}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  updateStrategy: {type: RollingUpdate}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: "example.com/db:1"}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  updateStrategy: {type: RollingUpdate}
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: main, image: "example.com/agent:1"}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/sum:1"}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80, targetPort: 8080}]
`

// The commands of kubectl that wait for workloads end with the stand-ins for Kubernetes'
// controllers.
func TestKubectlWaitsForWorkloads(t *testing.T) {
	e := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true, CollectGarbage: true})
	workloads.Start(t, e, workloads.Options{Nodes: 2, StartLatency: -1, StopLatency: -1, RunTime: -1})
	k := newKubectl(t, newServer(t, "embedded", e.Config(), e.Addr().String(), func(*testing.T) {}))
	for _, step := range []step{
		{args: "apply -f -", input: app, want: `deployment.apps/shop created`},
		{args: "rollout status deployment/shop --timeout=60s", want: `successfully rolled out`},
		{args: "rollout status statefulset/db --timeout=60s", want: `rolling update complete|partitioned roll out complete`},
		{args: "rollout status daemonset/agent --timeout=60s", want: `successfully rolled out`},
		{args: "wait --for=condition=Available deployment/shop --timeout=60s", want: `condition met`},
		{args: "wait --for=condition=Complete job/sum --timeout=60s", want: `condition met`},
		{args: "wait --for=condition=Ready pod/db-1 --timeout=60s", want: `condition met`},
		{args: "get deployment shop", want: `shop\s+2/2\s+2\s+2\s`},
		{args: "get endpointslices -l kubernetes.io/service-name=shop -o jsonpath={.items[0].ports[0].port}:{.items[0].endpoints[*].conditions.ready}", want: `^8080:true true$`},
		{args: "scale deployment shop --replicas=3", want: `scaled`},
		{args: "rollout status deployment/shop --timeout=60s", want: `successfully rolled out`},
		{args: "set image deployment/shop main=example.com/shop:2", want: `image updated`},
		{args: "rollout status deployment/shop --timeout=60s", want: `successfully rolled out`},
		{args: "rollout history deployment/shop", want: `(?m)^1\s[\s\S]*^2\s`},
		{args: "rollout undo deployment/shop", want: `rolled back`},
		{args: "rollout status deployment/shop --timeout=60s", want: `successfully rolled out`},
		{args: "get deployment shop -o jsonpath={.spec.template.spec.containers[0].image}", want: `^example.com/shop:1$`},
		{args: "rollout restart deployment/shop", want: `restarted`},
		{args: "rollout status deployment/shop --timeout=60s", want: `successfully rolled out`},
		{args: "set image statefulset/db main=example.com/db:2", want: `image updated`},
		{args: "rollout status statefulset/db --timeout=60s", want: `rolling update complete|partitioned roll out complete`},
		{args: "rollout undo statefulset/db", want: `rolled back`},
		{args: "rollout status statefulset/db --timeout=60s", want: `rolling update complete|partitioned roll out complete`},
		{args: "get pod db-0 -o jsonpath={.spec.containers[0].image}", want: `^example.com/db:1$`},
		{args: "drain node-1 --ignore-daemonsets --force --timeout=60s", want: `node/node-1 drained`},
		{args: "rollout status deployment/shop --timeout=60s", want: `successfully rolled out`},
		{args: "get pods -l app=shop -o jsonpath={.items[*].spec.nodeName}", want: `^node-2 node-2 node-2$`},
		{args: "uncordon node-1", want: `uncordoned`},
		{args: "get nodes", want: `node-1\s+Ready\s[\s\S]*node-2\s+Ready\s`},
		{args: "delete deployment shop --cascade=foreground --timeout=60s", want: `deleted`},
		{args: "get pods -l app=shop", want: `No resources found`},
	} {
		if out, ok := k.run(step.input, strings.Fields(step.args)...); !ok || !regexp.MustCompile(step.want).MatchString(out) {
			t.Errorf("kubectl %s: want %s, got\n%s", step.args, step.want, out)
		}
	}
}
