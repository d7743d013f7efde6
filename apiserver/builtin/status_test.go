package builtin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// statusErrors returns the errors of a change of the status from one YAML text to the other.
func statusErrors(t *testing.T, object, before, after string) (errs []string) {
	t.Helper()
	with := func(status string) runtime.Object {
		obj := decoded(t, fmt.Sprintf(object, status))
		Default(obj)
		return obj
	}
	for _, err := range Validate(with(after), with(before), "status") {
		errs = append(errs, err.Error())
	}
	return errs
}

func TestStatusErrorsAreThoseOfKubeAPIServer(t *testing.T) {
	const (
		job     = `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {containers: [{name: a, image: a}]}}}, status: {%s}}`
		indexed = `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {completionMode: Indexed, completions: 5, parallelism: 2, backoffLimitPerIndex: 1, template: {spec: {containers: [{name: a, image: a}]}}}, status: {%s}}`
		balance = `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer, ports: [{port: 80}]}, status: {%s}}`
		cluster = `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}, status: {%s}}`
		ingress = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, status: {%s}}`

		done     = `conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}], startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:01:00Z", succeeded: 1`
		conflict = `status.conditions: Invalid value: cannot `
	)
	for _, c := range []struct {
		what, object, before, after string
		want                        []string
	}{
		{"a job that is done", job, "active: 1", done, nil},
		{"only the condition", job, "", `conditions: [{type: Complete, status: "True"}]`, []string{
			"status.completionTime: Required value: completionTime is required for Complete jobs",
			conflict + "set Complete=True condition without the SuccessCriteriaMet=true condition",
			"status.startTime: Required value: startTime is required for finished job",
		}},
		{"what was stored before", job, `conditions: [{type: Complete, status: "True"}]`, `conditions: [{type: Complete, status: "True"}], failed: 1`, nil},
		{"a failure without its target", job, `startTime: "2026-01-01T00:00:00Z"`, `startTime: "2026-01-01T00:00:00Z", conditions: [{type: Failed, status: "True"}], active: 1, ready: 2, terminating: 1`, []string{
			conflict + "set Failed=True condition without the FailureTarget=true condition",
			"status.active: Invalid value: 1: active>0 is invalid for finished job",
			"status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
			"status.ready: Invalid value: 2: cannot set more ready pods than active",
		}},
		{"a job that runs again", job, done, "active: 1", []string{
			conflict + "disable the terminal Complete=True condition",
			"status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
			"status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
			conflict + "disable the SuccessCriteriaMet=True condition",
		}},
		{"negative counts and uncounted pods", job, "", `active: -1, succeeded: -1, failed: -1, uncountedTerminatedPods: {succeeded: [a, ""], failed: [a]}`, []string{
			"status.active: Invalid value: -1: must be greater than or equal to 0",
			"status.succeeded: Invalid value: -1: must be greater than or equal to 0",
			"status.failed: Invalid value: -1: must be greater than or equal to 0",
			`status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty`,
			`status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"`,
			"status.failed: Invalid value: -1: cannot decrease the failed counter",
			"status.succeeded: Invalid value: -1: cannot decrease the succeeded counter",
		}},
		{"indexes of a job without them", job, "", `completedIndexes: "0", failedIndexes: "0"`, []string{
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex is null`,
			`status.failedIndexes: Invalid value: "0": failedIndexes and completedIndexes overlap at index: 0`,
		}},
		{"indexes", indexed, "", `completedIndexes: "0,2-3", failedIndexes: "1,4"`, nil},
		{"indexes that are too large", indexed, "", `completedIndexes: "0,5"`, []string{`status.completedIndexes: Invalid value: "0,5": error parsing completedIndexes: too large index: "5"`}},
		{"indexes without an order", indexed, "", `completedIndexes: "3,1", failedIndexes: "2-1"`, []string{
			`status.completedIndexes: Invalid value: "3,1": error parsing completedIndexes: non-increasing order, previous: 3, current: 1`,
			`status.failedIndexes: Invalid value: "2-1": error parsing failedIndexes: non-increasing order, previous: 2, current: 1`,
		}},
		{"a load balancer", balance, "", "loadBalancer: {ingress: [{ip: 192.0.2.1}, {hostname: example.com}]}", nil},
		{"a load balancer nowhere", balance, "", "loadBalancer: {ingress: [{ip: bad}, {hostname: 192.0.2.1, ipMode: VIP}]}", []string{
			`status.loadBalancer.ingress[0].ip: Invalid value: "bad": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			"status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
			`status.loadBalancer.ingress[1].hostname: Invalid value: "192.0.2.1": must be a DNS name, not an IP address`,
		}},
		{"an address as before", balance, "loadBalancer: {ingress: [{ip: 192.0.02.1}]}", "loadBalancer: {ingress: [{ip: 192.0.02.1}]}", nil},
		{"another type of service", cluster, "", "loadBalancer: {ingress: [{ip: 192.0.2.1}]}", []string{"status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"}},
		{"an ingress", ingress, "", "loadBalancer: {ingress: [{ip: 192.0.2.1}]}", nil},
		{"an ingress nowhere", ingress, "", "loadBalancer: {ingress: [{ip: bad}]}", []string{
			`status.loadBalancer.ingress[0].ip: Invalid value: "bad": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
	} {
		if got := statusErrors(t, c.object, c.before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s", c.what, strings.Join(got, "\n"))
		}
	}
}
