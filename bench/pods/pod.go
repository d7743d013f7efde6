package pods

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func asUID(s string) types.UID { return types.UID(s) }

// pod builds the pod. It shares strings with its template until it is decoded.
func (p planned) pod(seed uint64) *corev1.Pod {
	rng := rand.New(rand.NewPCG(seed, 0x706f6400_00000000+uint64(p.serial)))
	created := birth.Add(time.Duration(p.serial) * 11 * time.Second)
	labels := maps.Clone(p.labels)
	labels["pod-template-hash"] = p.hash
	labels[TrackLabel] = "stable"
	if p.canary {
		labels[TrackLabel] = Canary
	}
	address := fmt.Sprintf("10.%d.%d.%d", p.serial>>16&0xff, p.serial>>8&0xff, p.serial&0xff)
	annotations := maps.Clone(p.annotations)
	annotations["cni.example.com/podIP"] = address + "/32"
	set := p.name[:len(p.name)-len("-xxxxx")]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              p.name,
			GenerateName:      set + "-",
			Namespace:         p.namespace,
			UID:               asUID(uid(rng)),
			ResourceVersion:   strconv.Itoa(firstVersion + versionStep*p.serial + rng.IntN(versionStep)),
			CreationTimestamp: metav1.NewTime(created),
			Labels:            labels,
			Annotations:       annotations,
			OwnerReferences:   []metav1.OwnerReference{controllerRef(set, p.owner)},
		},
		// Quantities cache their text when they are encoded, so several goroutines that
		// encode one template would write to it.
		Spec: *p.spec.DeepCopy(),
	}
	pod.Spec.NodeName = fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", p.node/250, p.node%250, 7+p.node%13)
	pod.ManagedFields = p.managedFields(pod, created)
	pod.Status = p.status(rng, created, address)
	return pod
}

func (p planned) status(rng *rand.Rand, created time.Time, address string) corev1.PodStatus {
	scheduled := metav1.NewTime(created.Add(time.Duration(rng.IntN(3)) * time.Second))
	started := metav1.NewTime(scheduled.Add(time.Duration(1+rng.IntN(30)) * time.Second))
	ready := metav1.NewTime(started.Add(time.Duration(1+rng.IntN(90)) * time.Second))
	host := fmt.Sprintf("10.%d.%d.%d", 128+p.node/250, p.node%250, 7+p.node%13)
	status := corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			condition(corev1.PodInitialized, scheduled),
			condition(corev1.PodReady, ready),
			condition(corev1.ContainersReady, ready),
			condition(corev1.PodScheduled, scheduled),
		},
		HostIP:    host,
		HostIPs:   []corev1.HostIP{{IP: host}},
		PodIP:     address,
		PodIPs:    []corev1.PodIP{{IP: address}},
		StartTime: &scheduled,
		QOSClass:  corev1.PodQOSBurstable,
	}
	yes := true
	for i := range p.spec.Containers {
		c := &p.spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name:         c.Name,
			State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			Ready:        true,
			RestartCount: int32(rng.IntN(4)),
			Image:        c.Image,
			ImageID:      p.images[c.Image],
			ContainerID:  "containerd://" + hex(rng, 64),
			Started:      &yes,
		})
	}
	return status
}

func condition(kind corev1.PodConditionType, at metav1.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at}
}
