package builtin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodSubresourcesAreValidated(t *testing.T) {
	const (
		debugged = `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: main, image: m}], ephemeralContainers: [%s]}}`
		sized    = `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: main, image: m, resources: {%s}}]}}`
		named    = `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [%s]}}`
		static   = `{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {kubernetes.io/config.mirror: x}}, spec: {containers: [{name: main, image: m%s}]}}`
		ec       = "spec.ephemeralContainers"
		never    = ": Forbidden: cannot be set for an Ephemeral Container"
	)
	for _, c := range []struct {
		what, subresource, pod, before, after string
		want                                  []string
	}{
		{"one", "ephemeralcontainers", debugged, "", "{name: d, image: d, targetContainerName: main}", nil},
		{"no image, a name that is used and an unknown target", "ephemeralcontainers", debugged, "", "{name: main, targetContainerName: z}", []string{
			ec + "[0].image: Required value", ec + `[0].name: Duplicate value: "main"`, ec + `[0].targetContainerName: Not found: "z"`,
		}},
		{"fields of other containers", "ephemeralcontainers", debugged, "", "{name: d, image: d, ports: [{containerPort: 80}], resources: {limits: {cpu: 1}}, lifecycle: {}, startupProbe: {tcpSocket: {port: 80}}}", []string{
			ec + "[0].ports" + never, ec + "[0].resources" + never, ec + "[0].startupProbe" + never, ec + "[0].lifecycle" + never,
		}},
		{"one less", "ephemeralcontainers", debugged, "{name: d, image: d}", "", []string{ec + ": Forbidden: existing ephemeral containers \"d\" may not be removed\n"}},
		{"a static pod", "ephemeralcontainers", static, "", "", []string{"[]: Forbidden: static pods do not support ephemeral containers"}},
		{"larger", "resize", sized, "requests: {cpu: 1}", "requests: {cpu: 2}, limits: {cpu: 3}", nil},
		{"negative", "resize", sized, "requests: {cpu: 1}", "requests: {cpu: -1}", []string{`spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"storage", "resize", sized, "requests: {cpu: 1}", "requests: {cpu: 1, ephemeral-storage: 1Gi}", []string{"spec: Forbidden: only cpu and memory resources are mutable"}},
		{"a request less", "resize", sized, "requests: {cpu: 1, memory: 1Gi}", "requests: {cpu: 1}", []string{"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"}},
		{"another class", "resize", sized, "", "requests: {cpu: 1}", []string{`spec: Invalid value: "": Pod QOS Class may not change as a result of resizing`}},
		{"another name", "resize", named, "{name: a, image: a}", "{name: b, image: b}", []string{"spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"}},
		{"a container more", "resize", named, "{name: a, image: a}", "{name: a, image: a}, {name: b, image: b}", []string{"spec.containers: Forbidden: containers may not be added or removed on resize"}},
		{"a static pod", "resize", static, "", "", []string{"[]: Forbidden: static pods cannot be resized"}},
	} {
		of := func(fields string) *corev1.Pod {
			pod := decoded(t, fmt.Sprintf(c.pod, fields)).(*corev1.Pod)
			Default(pod)
			return pod
		}
		var got []string
		for _, err := range Validate(of(c.after), of(c.before), c.subresource) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s:\n%s", c.subresource, c.what, strings.Join(got, "\n"))
		}
	}
	pod := decoded(t, fmt.Sprintf(debugged, "{name: d, image: d}")).(*corev1.Pod)
	Default(pod)
	if d := pod.Spec.EphemeralContainers[0]; d.ImagePullPolicy != corev1.PullAlways || d.TerminationMessagePolicy != corev1.TerminationMessageReadFile {
		t.Errorf("no defaults: %+v", d)
	}
}
