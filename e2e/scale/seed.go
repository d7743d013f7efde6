package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/object"
)

// widgets is the custom resource.
var widgets = object.Resource{Group: "scale.example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}

// namespaces is how many namespaces there are.
const namespaces = 100

// marker is the name of an object of each resource that is written last, so that a client that
// has seen it has seen everything.
const marker = "zz-marker"

// stepKey is the annotation with the step that wrote an object.
const stepKey = "scale.example.com/step"

// born is the creation time of all objects.
var born = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// writer writes objects directly to etcd, in the form in which the API server stores
// them.
type writer struct {
	plane  *controlplane.Plane
	encode *protobuf.Serializer
}

func newWriter(plane *controlplane.Plane) *writer {
	return &writer{plane, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)}
}

// fill writes so many pods and widgets, and a marker of each.
func (w *writer) fill(ctx context.Context, pods, things int, progress func(done int)) error {
	for i := 0; i < max(pods, things); i += 1000 {
		if err := w.write(ctx, "fill", i, min(i+1000, pods), i, min(i+1000, things)); err != nil {
			return err
		}
		progress(min(i+1000, pods) + min(i+1000, things))
	}
	return w.mark(ctx, "fill")
}

// small returns so many small kinds.
func small(n int) (kinds []object.Resource) {
	for i := range n {
		kind := fmt.Sprintf("Small%02d", i)
		kinds = append(kinds, object.Resource{
			Group: widgets.Group, Version: widgets.Version, Resource: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true,
		})
	}
	return kinds
}

// perSmall is how many objects a small kind has.
const perSmall = 100

func (w *writer) fillSmall(ctx context.Context, kinds []object.Resource) error {
	for _, res := range kinds {
		var pairs []controlplane.Pair
		for i := range perSmall {
			p, err := custom(res, i, fmt.Sprintf("small-%06d", i), "fill")
			if err != nil {
				return err
			}
			pairs = append(pairs, p)
		}
		if err := w.plane.Put(ctx, pairs...); err != nil {
			return err
		}
	}
	return nil
}

// change writes the first n objects again, two pods for each widget.
func (w *writer) change(ctx context.Context, step string, n int) error {
	for i := 0; i < n; i += 900 {
		size := min(900, n-i)
		if err := w.write(ctx, step, i*2/3, i*2/3+size*2/3, i/3, i/3+size/3); err != nil {
			return err
		}
	}
	return w.mark(ctx, step)
}

func (w *writer) write(ctx context.Context, step string, podsFrom, podsTo, thingsFrom, thingsTo int) error {
	var pairs []controlplane.Pair
	for i := podsFrom; i < podsTo; i++ {
		p, err := w.pod(i, fmt.Sprintf("pod-%06d", i), step)
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	for i := thingsFrom; i < thingsTo; i++ {
		p, err := custom(widgets, i, fmt.Sprintf("widget-%06d", i), step)
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	return w.plane.Put(ctx, pairs...)
}

// mark writes the markers.
func (w *writer) mark(ctx context.Context, step string) error {
	pod, err := w.pod(-1, marker, step)
	if err != nil {
		return err
	}
	thing, err := custom(widgets, -1, marker, step)
	if err != nil {
		return err
	}
	return w.plane.Put(ctx, pod, thing)
}

func meta(i int, kind, name, step, fields string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace(i), UID: types.UID(fmt.Sprintf("%s-4000-8000-%012d", kind, i+1)), CreationTimestamp: born, Generation: 1,
		Labels: map[string]string{
			"app.kubernetes.io/name": fmt.Sprintf("app-%d", i%500), "app.kubernetes.io/instance": fmt.Sprintf("instance-%d", i%2000),
			"app.kubernetes.io/managed-by": "helm", "tier": []string{"front", "middle", "back"}[(i+1)%3],
		},
		Annotations: map[string]string{stepKey: step, "example.com/owner": fmt.Sprintf("team-%d@example.com", i%40)},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &born,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}},
	}
}

func namespace(i int) string { return fmt.Sprintf("scale-%02d", (i+namespaces)%namespaces) }

const podFields = `{"f:metadata":{"f:annotations":{".":{},"f:example.com/owner":{}},"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:tier":{}},"f:ownerReferences":{".":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{".":{}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{}},"f:resources":{".":{},"f:limits":{},"f:requests":{}},"f:volumeMounts":{".":{}}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:terminationGracePeriodSeconds":{},"f:volumes":{".":{}}}}`

// pod makes a pod as a Deployment's would be on a busy cluster.
func (w *writer) pod(i int, name, step string) (controlplane.Pair, error) {
	yes, grace := true, int64(30)
	app := fmt.Sprintf("app-%d", i%500)
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta(i, "00000000", name, step, podFields),
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%04d", i%1000), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
			SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: &grace, ServiceAccountName: app, SecurityContext: &corev1.PodSecurityContext{},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/" + app + ":v1.2.3", ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				Args:  []string{"serve", "--listen=:8080", "--config=/etc/app/config.yaml"},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env: []corev1.EnvVar{{Name: "APP", Value: app}, {Name: "LOG_LEVEL", Value: "info"},
					{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{"memory": resource.MustParse("512Mi")},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: fmt.Sprintf("10.1.%d.%d", i/250%250, i%250), PodIP: fmt.Sprintf("10.2.%d.%d", i/250%250, i%250), StartTime: &born, QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: born},
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: born},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: born},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: born},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Ready: true, Started: &yes, Image: "registry.example.com/" + app + ":v1.2.3",
				ImageID: fmt.Sprintf("registry.example.com/%s@sha256:%064x", app, i%500), ContainerID: fmt.Sprintf("containerd://%064x", i+1),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: born}},
			}},
		},
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(fmt.Sprintf("11111111-4000-8000-%012d", i%500)), Controller: &yes}}
	var b bytes.Buffer
	if err := w.encode.Encode(pod, &b); err != nil {
		return controlplane.Pair{}, err
	}
	return controlplane.Pair{Key: "/registry/pods/" + pod.Namespace + "/" + name, Value: b.Bytes()}, nil
}

const widgetFields = `{"f:metadata":{"f:annotations":{".":{},"f:example.com/owner":{}},"f:labels":{".":{},"f:tier":{}}},"f:spec":{".":{},"f:image":{},"f:replicas":{},"f:parts":{}},"f:status":{}}`

// custom makes a custom resource of a middling size.
func custom(res object.Resource, i int, name, step string) (controlplane.Pair, error) {
	m := meta(i, "22222222", name, step, widgetFields)
	var parts []any
	for n := range 6 {
		parts = append(parts, map[string]any{"name": fmt.Sprintf("part-%d", n), "size": 10 * n, "weight": 0.5 + float64(n), "tags": []string{"alpha", "beta"}})
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": res.GVK().GroupVersion().String(), "kind": res.Kind, "metadata": m,
		"spec":   map[string]any{"image": "registry.example.com/widget:v7", "replicas": i % 5, "parts": parts, "paused": false},
		"status": map[string]any{"phase": "Ready", "observedGeneration": 1, "conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "AllGood", "lastTransitionTime": born}}},
	})
	return controlplane.Pair{Key: "/registry/" + res.Group + "/" + res.Resource + "/" + m.Namespace + "/" + name, Value: data}, err
}
