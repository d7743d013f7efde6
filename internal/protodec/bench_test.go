package protodec

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// running returns the i-th of many pods, twenty to a template, as a cluster has them:
// with the volume of a service account that has a name of its own in each pod.
func running(i int) *corev1.Pod {
	app, node := fmt.Sprintf("app-%d", i/20), fmt.Sprintf("ip-10-0-%d.eu-central-1.compute.internal", i%100)
	at := metav1.NewTime(time.Unix(1_770_000_000+int64(i), 0))
	access := fmt.Sprintf("kube-api-access-%05d", i)
	yes, seconds, mode := true, int64(300), int32(0o644)
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("513Mi")}
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-6d4cf56db6-%05d", app, i), GenerateName: app + "-6d4cf56db6-", Namespace: "shop",
			UID: object.UID(fmt.Sprintf("7a2f7e0c-5d0e-4f2e-9c55-%012d", i)), ResourceVersion: fmt.Sprint(41_000_000 + i), CreationTimestamp: at,
			Labels:          map[string]string{"app": app, "tier": "backend", "pod-template-hash": "6d4cf56db6", "app.kubernetes.io/managed-by": "Helm"},
			Annotations:     map[string]string{"cni.example.com/podIP": fmt.Sprintf("10.0.%d.%d/32", i>>8, i&255), "prometheus.io/scrape": "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-6d4cf56db6", UID: object.UID("owner-" + app), Controller: &yes, BlockOwnerDeletion: &yes}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{},"f:image":{},"f:name":{}}}}}`)},
				{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", Subresource: "status", FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:status":{"f:podIPs":{".":{},"k:{\"ip\":\"10.0.%d.%d\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`, i>>8, i&255))},
			},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}, DefaultMode: &mode}}},
				{Name: access, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				}}}},
			},
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/" + app + ":1.2.3", Args: []string{"--listen=:8080"},
				Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:       []corev1.EnvVar{{Name: "LANGUAGE", Value: "go"}, {Name: "DATABASE_URL", Value: "postgres." + app + ".svc:5432"}},
				Resources: corev1.ResourceRequirements{Requests: limits, Limits: limits},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "config", MountPath: "/etc/" + app, ReadOnly: true},
					{Name: access, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
				},
				LivenessProbe: probe, ReadinessProbe: probe,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
				SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes},
			}},
			RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &seconds, DNSPolicy: corev1.DNSClusterFirst,
			ServiceAccountName: app, NodeName: node, SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: fmt.Sprintf("10.1.0.%d", i%100), PodIP: fmt.Sprintf("10.0.%d.%d", i>>8, i&255),
			PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}}, StartTime: &at, QOSClass: corev1.PodQOSGuaranteed,
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}, Ready: true, Started: &yes,
				Image: "registry.example.com/" + app + ":1.2.3", ImageID: "registry.example.com/" + app + "@sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
				ContainerID: fmt.Sprintf("containerd://%064d", i),
			}},
		},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	return pod
}

// BenchmarkPod decodes pods with the generated code and in the ways that there are
// here.
func BenchmarkPod(b *testing.B) {
	raws := make([][]byte, 2_000)
	for i := range raws {
		raws[i] = must(running(i).Marshal())
	}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
	}
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := new(corev1.Pod).Unmarshal(raws[i%len(raws)]); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	for _, c := range []struct {
		name string
		opts Options
	}{
		{"plain", Options{}},
		{"interned", Options{Strings: intern.NewStrings(0)}},
		{"shared", Options{Share: intern.NewParts(0)}},
		{"both", Options{Strings: intern.NewStrings(0), Share: intern.NewParts(0)}},
		{"both-dropping", Options{Strings: intern.NewStrings(0), Share: intern.NewParts(0), Drop: []object.FieldPath{object.ManagedFields}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := must(For[*corev1.Pod](c.opts))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Decode(raws[i%len(raws)]); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
	}
	b.Run("peek", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := Peek(raws[i%len(raws)]); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
}

func TestPodsOfTheBenchmarkNeedAFewAllocations(t *testing.T) {
	soak.Measures(t)
	for _, c := range []struct {
		name string
		opts Options
		most float64
	}{
		{"plain", Options{}, 68},
		{"both", Options{Strings: intern.NewStrings(0), Share: intern.NewParts(0)}, 32},
	} {
		e := must(newEngine(reflect.TypeFor[corev1.Pod](), c.opts))
		s := e.states.New().(*state) // not from the pool, which forgets
		s.share = e.share
		decode := func(raw []byte) { must(s.object(e.root, raw)) }
		raws := make([][]byte, 200)
		for i := range raws {
			raws[i] = must(running(i).Marshal())
			decode(raws[i])
		}
		i := 0
		if n := testing.AllocsPerRun(len(raws), func() { decode(raws[i%len(raws)]); i++ }); n > c.most {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
