package jsondec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
)

// podTemplate is a pod of a deployment, some 5 KB of JSON. What differs from pod to pod
// is marked; see endless.
func podTemplate() *corev1.Pod {
	yes := true
	seconds := int64(30)
	tolerated := int64(300)
	mode := int32(420)
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	token := "kube-api-access-" + mark
	quantities := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	container := func(name, image string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: image, Args: []string{"--listen=:8080", "--log-level=info", "--region=eu-central-1"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
			Env: []corev1.EnvVar{
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
				{Name: "LOG_FORMAT", Value: "json"}, {Name: "DATABASE_HOST", Value: "postgres.shop.svc.cluster.local"},
			},
			Resources:       corev1.ResourceRequirements{Limits: quantities("500m", "512Mi"), Requests: quantities("100m", "128Mi")},
			VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: "/etc/checkout", ReadOnly: true}, {Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			ReadinessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Scheme: "HTTP"}}, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3},
			ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		}
	}
	status := func(name, image string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Image: image, ImageID: image + "@sha256:9b2c6f1ba1e9ef4bb0f5ed6e1d5cf2b3a4c5d6e7f8091a2b3c4d5e6f70819202", Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}, ContainerID: "containerd://" + strings.Repeat(mark, 8),
		}
	}
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "checkout-5d9c7b64-" + mark, GenerateName: "checkout-5d9c7b64-", Namespace: "shop", UID: types.UID("7f3c0d4e-1b2a-4c3d-9e8f-0000" + mark),
			ResourceVersion: "10" + mark, CreationTimestamp: now,
			Labels:          map[string]string{"app": "checkout", "pod-template-hash": "5d9c7b64", "team": "payments", "version": "v1.14.2"},
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": "b1946ac92492d2347c6235b4d2611184"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "checkout-5d9c7b64", UID: "0f6c1a50-7d5e-4f0a-8a41-3f2b7d5b9a11", Controller: &yes, BlockOwnerDeletion: &yes}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", Subresource: "status",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:startTime":{}}}`),
			}},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "checkout"}, DefaultMode: &mode}}},
				{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				}}}},
			},
			Containers: []corev1.Container{container("checkout", "registry.example.com/shop/checkout:v1.14.2", 8080), container("proxy", "registry.example.com/mesh/proxy:v2.1.0", 15001)},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerated},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerated},
			},
			RestartPolicy: "Always", TerminationGracePeriodSeconds: &seconds, DNSPolicy: "ClusterFirst", ServiceAccountName: "checkout", NodeName: "node-042",
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, SchedulerName: "default-scheduler", EnableServiceLinks: &yes,
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "10.0.0.42", PodIP: "fd00::" + mark, StartTime: &now, QOSClass: "Burstable",
			PodIPs:            []corev1.PodIP{{IP: "fd00::" + mark}},
			Conditions:        []corev1.PodCondition{condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")},
			ContainerStatuses: []corev1.ContainerStatus{status("checkout", "registry.example.com/shop/checkout:v1.14.2"), status("proxy", "registry.example.com/mesh/proxy:v2.1.0")},
		},
	}
}

// certificate is a custom resource, some 2 KB of JSON with sorted keys, as a server
// sends it.
const certificate = `{"apiVersion":"cert.example.com/v1","kind":"Certificate","metadata":{"annotations":{"example.com/contact":"team-7@example.com","example.com/reviewed":"true"},"creationTimestamp":"2024-03-01T~~:~~:~~Z","generation":3,"labels":{"app":"web-7","app.kubernetes.io/managed-by":"helm","team":"payments"},"managedFields":[{"apiVersion":"cert.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{"f:example.com/contact":{}},"f:labels":{"f:app":{},"f:team":{}}},"f:spec":{"f:dnsNames":{},"f:duration":{},"f:issuerRef":{"f:kind":{},"f:name":{}},"f:secretName":{},"f:usages":{}}},"manager":"helm","operation":"Apply","time":"2024-03-01T09:30:00Z"}],"name":"web-@@@@@@@@","namespace":"shop-7","ownerReferences":[{"apiVersion":"networking.k8s.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Ingress","name":"web-@@@@@@@@","uid":"5b0c3a4e-9c1d-4e6a-8f7b-0000@@@@@@@@"}],"resourceVersion":"20@@@@@@@@","uid":"1a2b3c4d-5e6f-4a5b-8c7d-0000@@@@@@@@"},"spec":{"dnsNames":["web-@@@@@@@@.example.com","www.web-@@@@@@@@.example.com"],"duration":"2160h0m0s","issuerRef":{"group":"cert.example.com","kind":"ClusterIssuer","name":"letsencrypt"},"privateKey":{"algorithm":"ECDSA","rotationPolicy":"Always","size":256},"renewBefore":"360h0m0s","secretName":"web-@@@@@@@@-tls","secretTemplate":{"annotations":{"reflector.example.com/allowed":"true"},"labels":{"team":"payments"}},"usages":["digital signature","key encipherment","server auth"]},"status":{"conditions":[{"lastTransitionTime":"2024-03-01T~~:~~:~~Z","message":"Certificate is up to date and has not expired","observedGeneration":3,"reason":"Ready","status":"True","type":"Ready"}],"notAfter":"2024-05-30T~~:~~:~~Z","notBefore":"2024-03-01T~~:~~:~~Z","renewalTime":"2024-05-15T~~:~~:~~Z","revision":1}}`

// mark stands for eight digits that differ from object to object.
const mark = "@@@@@@@@"

// endless gives as many documents as one likes that differ in the marked places: the
// tables get to see what they would in a cluster, and not the same objects again.
type endless struct {
	doc   []byte
	marks []int // of eight digits
	times []int // of hours, minutes and seconds
	i     int
}

func newEndless(doc string) *endless {
	e := &endless{doc: []byte(strings.ReplaceAll(doc, "22:13:20Z", "~~:~~:~~Z"))}
	for i := range e.doc {
		if bytes.HasPrefix(e.doc[i:], []byte(mark)) && (len(e.marks) == 0 || i >= e.marks[len(e.marks)-1]+len(mark)) {
			e.marks = append(e.marks, i)
		}
		if bytes.HasPrefix(e.doc[i:], []byte("~~:~~:~~Z")) {
			e.times = append(e.times, i)
		}
	}
	return e
}

func podDocs(tb testing.TB) *endless {
	raw, err := json.Marshal(podTemplate())
	if err != nil {
		tb.Fatal(err)
	}
	return newEndless(string(raw))
}

// next returns the next document, valid until the next call.
func (e *endless) next() []byte {
	e.i++
	for _, at := range e.marks {
		for n, k := e.i*7919, 7; k >= 0; n, k = n/10, k-1 {
			e.doc[at+k] = '0' + byte(n%10)
		}
	}
	for _, at := range e.times {
		copy(e.doc[at:], fmt.Appendf(nil, "%02d:%02d:%02dZ", e.i/3600%24, e.i/60%60, e.i%60))
	}
	return e.doc
}

// BenchmarkDecode compares with what client-go uses.
func BenchmarkDecode(b *testing.B) {
	drop := []object.FieldPath{object.ManagedFields}
	tables := func(o Options) Options {
		o.Strings, o.Share = intern.NewStrings(0), intern.NewParts(0)
		return o
	}
	for _, kind := range []struct {
		name string
		t    reflect.Type
		docs *endless
	}{
		{"pod", reflect.TypeFor[*corev1.Pod](), podDocs(b)},
		{"metadata", reflect.TypeFor[*metav1.PartialObjectMetadata](), podDocs(b)},
		{"unstructured", reflect.TypeFor[*unstructured.Unstructured](), newEndless(certificate)},
	} {
		b.Run(kind.name+"/apimachinery", func(b *testing.B) {
			measure(b, kind.docs, func(raw []byte) (any, error) { return reference(kind.t, raw) })
		})
		for _, with := range []struct {
			name string
			opts Options
		}{
			{"plain", Options{}},
			{"strings", Options{Strings: intern.NewStrings(0)}},
			{"shared", tables(Options{})},
			{"shared,dropped", tables(Options{Drop: drop})},
		} {
			b.Run(kind.name+"/"+with.name, func(b *testing.B) {
				m, err := newMachine(kind.t, with.opts)
				if err != nil {
					b.Fatal(err)
				}
				measure(b, kind.docs, func(raw []byte) (any, error) {
					p, err := m.decode(raw)
					return p, err
				})
			})
		}
	}
}

// measure reports time, allocations, and the live heap of one object of many, without
// what the tables hold.
func measure(b *testing.B, docs *endless, decode func([]byte) (any, error)) {
	b.SetBytes(int64(len(docs.doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(docs.next()); err != nil {
			b.Fatal(err)
		}
	}
	held := make([]any, 2000)
	before := liveHeap()
	for i := range held {
		held[i], _ = decode(docs.next())
	}
	b.ReportMetric(float64(liveHeap()-before)/float64(len(held)), "live-B/object")
	runtime.KeepAlive(held)
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkPeek(b *testing.B) {
	raw := podDocs(b).next()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Peek(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanner(b *testing.B) {
	docs := podDocs(b)
	var list strings.Builder
	list.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
	for i := range 100 {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(docs.next())
	}
	list.WriteString("]}\n")
	b.SetBytes(int64(list.Len()))
	b.ReportAllocs()
	for b.Loop() {
		sc := NewScanner(strings.NewReader(list.String()), 0)
		for {
			if _, err := sc.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
