package builtin

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"
)

// decoded returns the object of a YAML text, as a client sends it.
func decoded(t *testing.T, text string) runtime.Object {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// stored returns an object as the server stores it, and the errors that a client gets.
func stored(obj, old runtime.Object) (runtime.Object, []string) {
	Default(obj)
	Prepare(obj, old)
	var errs []string
	for _, err := range Validate(obj, old, "") {
		errs = append(errs, err.Error())
	}
	return obj, errs
}

func TestWarningsAreThoseOfKubeAPIServer(t *testing.T) {
	pod := decoded(t, `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {
		nodeSelector: {beta.kubernetes.io/os: linux}, imagePullSecrets: [{name: s}, {name: s}, {name: ""}], terminationGracePeriodSeconds: -1,
		affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}},
		containers: [
			{name: a, env: [{name: X, value: a}, {name: X, value: $(X)b}, {name: X, value: c}], ports: [{containerPort: 80, protocol: TCP, name: http}]},
			{name: b, resources: {limits: {memory: 100m}}, ports: [{containerPort: 80, protocol: TCP, name: http}]}]}}`)
	service := decoded(t, `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ClusterIP, clusterIP: None, sessionAffinity: None, externalName: x, externalIPs: [10.0.0.1]}}`)
	job := decoded(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: a.b, generation: 1}, spec: {template: {spec: {terminationGracePeriodSeconds: -1}}}}`)
	changed := job.DeepCopyObject()
	changed.(*batchv1.Job).Generation = 2
	for _, c := range []struct {
		what     string
		obj, old runtime.Object
		want     []string
	}{
		{"a pod", pod, nil, []string{
			`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
			`spec.imagePullSecrets[1].name: duplicate name "s"`,
			`spec.imagePullSecrets[2].name: invalid empty name ""`,
			`spec.containers[0].env[2]: hides previous definition of "X", which may be dropped when using apply`,
			`spec.containers[1].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer`,
			`spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]`,
			`spec.containers[1].ports[0]: duplicate port name "http" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]`,
			`spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod`,
		}},
		{"an updated pod", pod, pod, nil},
		{"a headless service", service, service, []string{
			"spec.externalIPs is ignored for headless services",
			`spec.externalName is ignored when spec.type is not "ExternalName"`,
		}},
		{"a job", job, nil, []string{
			"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
			"spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
		}},
		{"the same spec", job, job, nil},
		{"another spec", changed, job, []string{"spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"}},
	} {
		if got := Warnings(c.obj, c.old); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s", c.what, strings.Join(got, "\n"))
		}
	}
}

// Random objects of every kind are defaulted, validated and described without a panic.
func TestEveryObjectIsHandled(t *testing.T) {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "Options") {
			continue
		}
		random := randfill.NewWithSeed(rand.Int63()).NilChance(0.5).NumElements(0, 2).MaxDepth(12).Funcs(
			func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte("{}") },
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewMilliQuantity(c.Int63n(3000)-1000, resource.DecimalSI)
			},
		)
		for range 5 {
			one, err := scheme.Scheme.New(gvk)
			if err != nil {
				t.Fatal(err)
			}
			two := one.DeepCopyObject()
			random.Fill(one)
			random.Fill(two)
			for _, obj := range []runtime.Object{one, two} {
				Default(obj)
			}
			Prepare(one, nil)
			Prepare(two, one)
			Validate(one, nil, "")
			Warnings(one, nil)
			if _, ok := one.(metav1.Object); ok {
				Validate(two, one, "")
				Warnings(two, one)
			}
			Validate(two, one, "status")
			if c := OpenAPI(gvk, one); len(c) == 0 {
				t.Errorf("%v has no schema", gvk)
			}
		}
	}
}

func TestInvalidObjectsGetTheErrorsOfKubeAPIServer(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: "
	for _, test := range []struct {
		text string
		want []string
	}{
		{pod + "{containers: [{name: a, image: a}]}}", nil},
		{pod + "{}}", []string{"spec.containers: Required value"}},
		{pod + "{containers: [{name: a, image: a, volumeMounts: [{name: v, mountPath: /v}]}]}}", []string{`spec.containers[0].volumeMounts[0].name: Not found: "v"`}},
		{"{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {type: Some, ports: [{port: 80}]}}",
			[]string{`spec.type: Unsupported value: "Some": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		{"{apiVersion: v1, kind: Secret, metadata: {name: x}, type: kubernetes.io/tls}", []string{"data[tls.crt]: Required value", "data[tls.key]: Required value"}},
		{"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {..: a}}", []string{`data[..]: Invalid value: "..": must not be '..'`}},
		{"{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {schedule: '61 * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}}}",
			[]string{`spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61`}},
		{"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{resources: [pods], apiGroups: ['']}]}",
			[]string{"rules[0].verbs: Required value: verbs must contain at least one value"}},
	} {
		if _, errs := stored(decoded(t, test.text), nil); !slices.Equal(errs, test.want) {
			t.Errorf("%s\n got %q\nwant %q", test.text, errs, test.want)
		}
	}
}

func TestPodsAreCompleted(t *testing.T) {
	obj, errs := stored(decoded(t, `
apiVersion: v1
kind: Pod
metadata: {name: x}
spec:
  containers:
  - {name: a, image: "host:5000/a", resources: {limits: {cpu: 1, memory: 1Gi}}, ports: [{containerPort: 80}]}
`), nil)
	pod := obj.(*corev1.Pod)
	c := pod.Spec.Containers[0]
	if len(errs) > 0 || c.ImagePullPolicy != corev1.PullAlways || c.Resources.Requests.Cpu().String() != "1" || c.Ports[0].Protocol != corev1.ProtocolTCP ||
		pod.Status.QOSClass != corev1.PodQOSGuaranteed || len(pod.Spec.Tolerations) != 2 || *pod.Spec.Priority != 0 || pod.Spec.ServiceAccountName != "default" {
		t.Errorf("%v\n%+v", errs, pod)
	}
	next := pod.DeepCopy()
	next.Spec.Containers[0].Image = "b"
	if _, errs := stored(next, pod); len(errs) > 0 {
		t.Errorf("another image: %v", errs)
	}
	next.Spec.Containers[0].Command = []string{"x"}
	if _, errs := stored(next, pod); len(errs) != 1 || !strings.HasPrefix(errs[0], "spec: Forbidden: pod updates may not change fields other than") {
		t.Errorf("another command: %v", errs)
	}
}

// The labels of a template are the job's unless it has its own. The server adds to both.
func TestJobsGetASelector(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}}
	job.Spec.Template.Labels = map[string]string{"app": "x"}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}
	_, errs := stored(job, nil)
	if len(errs) > 0 || job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != "u" || job.Labels["job-name"] != "x" || job.Labels["app"] != "x" {
		t.Errorf("%v\n%+v", errs, job)
	}
	job.Labels["app"] = "y"
	if job.Spec.Template.Labels["app"] != "x" {
		t.Error("the job and its template share labels")
	}
}

// Services get free addresses and ports, and the same in every run of a test.
func TestServicesGetFreeAddresses(t *testing.T) {
	var others []*corev1.Service
	used := map[any]bool{}
	for i := range 3000 { // more than there are ports, of which the last services have none
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("service-", i)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		if i < 900 {
			svc.Spec.Type = corev1.ServiceTypeNodePort
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: 81, NodePort: 30000 + int32(i)}, corev1.ServicePort{Port: 82})
			if used[svc.Spec.Ports[1].NodePort] {
				svc.Spec.Ports[1].NodePort = 0
			}
		}
		Default(svc)
		again := svc.DeepCopy()
		for _, s := range []*corev1.Service{svc, again} {
			if errs := Allocate(s, nil, others); len(errs) > 0 {
				t.Fatal(errs)
			}
		}
		values := []any{svc.Spec.ClusterIP}
		for _, port := range svc.Spec.Ports {
			if port.NodePort != 0 {
				values = append(values, port.NodePort)
			}
		}
		for _, value := range values {
			if used[value] {
				t.Fatalf("%s: %v is allocated twice", svc.Name, value)
			}
			used[value] = true
		}
		if !equality.Semantic.DeepEqual(svc, again) {
			t.Fatalf("%v and %v", svc.Spec, again.Spec)
		}
		others = append(others, svc)
	}
}

// A writer whose addresses are taken allocates again, so that must not lead to the same ones.
func TestWhatAllocateAcceptsIsNotTaken(t *testing.T) {
	local := corev1.ServiceExternalTrafficPolicyLocal
	other := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
		},
	}
	full := other.DeepCopy()
	for port := firstPort; port <= lastPort; port++ {
		full.Spec.Ports = append(full.Spec.Ports, corev1.ServicePort{Port: 80, NodePort: port})
	}
	external := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}}
	for name, c := range map[string]struct {
		old, other *corev1.Service
		spec       corev1.ServiceSpec
		refused    bool
	}{
		"the port of a health check is taken": {nil, other, corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: local, HealthCheckNodePort: 30080, Ports: []corev1.ServicePort{{Port: 80}},
		}, true},
		"all ports are taken": {nil, full, corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}, true},
		"the IP of a former external name is taken": {external, other, corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}, Ports: []corev1.ServicePort{{Port: 80}},
		}, true},
		"an external name has the port of another": {nil, other, corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
		}, false},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: c.spec}
		Default(svc)
		errs := Allocate(svc, c.old, []*corev1.Service{c.other})
		if len(errs) > 0 != c.refused {
			t.Errorf("%s: %v", name, errs)
		}
		if len(errs) == 0 && Taken(svc, c.old, []*corev1.Service{c.other}) {
			t.Errorf("%s: what was allocated is taken", name)
		}
	}
}

func TestClaimsKeepTheirClasses(t *testing.T) {
	claim := func(metadata, class, status string) runtime.Object {
		return decoded(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a`+metadata+`}, spec: {accessModes: [ReadWriteOnce], `+
			`resources: {requests: {storage: 1Gi}}`+class+`}, status: {phase: Bound`+status+`}}`)
	}
	const fast, slow = `, annotations: {volume.beta.kubernetes.io/storage-class: fast}`, `, annotations: {volume.beta.kubernetes.io/storage-class: slow}`
	const frozen = `metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: %q: field is immutable`
	const has, attributes = `, currentVolumeAttributesClassName: gold`, `, volumeAttributesClassName: gold`
	for what, c := range map[string]struct {
		old, now runtime.Object
		want     string
	}{
		"another annotation":               {claim(fast, "", ""), claim(slow, "", ""), fmt.Sprintf(frozen, "slow")},
		"the annotation moves":             {claim(fast, "", ""), claim("", ", storageClassName: fast", ""), ""},
		"the annotation becomes another":   {claim(fast, "", ""), claim(fast, ", storageClassName: slow", ""), "spec: Forbidden: spec is immutable"},
		"the default class is set":         {claim("", "", ""), claim("", ", storageClassName: fast", ""), ""},
		"no attributes any more":           {claim("", attributes, has), claim("", "", has), "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden"},
		"empty attributes":                 {claim("", attributes, has), claim("", `, volumeAttributesClassName: ""`, has), "spec.volumeAttributesClassName: Forbidden: update to empty string"},
		"other attributes":                 {claim("", attributes, has), claim("", `, volumeAttributesClassName: iron`, has), ""},
		"no attributes that are not there": {claim("", attributes, ""), claim("", "", ""), ""},
	} {
		Default(c.old)
		if _, errs := stored(c.now, c.old); len(errs) > 1 || (len(errs) == 0) != (c.want == "") || len(errs) == 1 && !strings.HasPrefix(errs[0], c.want) {
			t.Errorf("%s: %q, want %q", what, errs, c.want)
		}
	}
}
