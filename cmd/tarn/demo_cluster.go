package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// demoCluster is a made-up cluster on an embedded server. It keeps names alone: what the
// objects are is the server's, so others may change and delete them too.
type demoCluster struct {
	server *apiserver.Server
	rand   *rand.Rand
	nodes  []string
	apps   []*demoApp
	// made counts the objects that were made at first.
	made int
}

// demoApp is a deployment with what belongs to it, all of one name but for the pods.
type demoApp struct {
	object.Key
	replicaSet string
	pods       []string // in the order of their creation
	starting   []string // those of them that do not run yet
}

var (
	demoTeams = []string{"shop", "payments", "search", "identity", "media", "mail", "logistics", "analytics", "billing", "support"}
	demoNames = []string{"web", "api", "worker", "gateway", "cart", "checkout", "auth", "sessions", "indexer", "ranking", "feeds", "images", "prices", "stock", "ledger", "exports"}
	demoTiers = []string{"frontend", "backend", "batch"}
	demoZones = []string{"a", "b", "c"}
)

// newDemoCluster makes a cluster of about so many objects, unless the context ends. The seed decides all but the
// names that the server generates.
func newDemoCluster(ctx context.Context, server *apiserver.Server, objects int, seed uint64) (*demoCluster, error) {
	c := &demoCluster{server: server, rand: rand.New(rand.NewPCG(seed, 2))}
	for i := range min(max(objects/40, 3), 250) {
		if err := c.addNode(i); err != nil {
			return nil, err
		}
	}
	for team := 0; c.made < objects; team++ {
		namespace := demoTeams[team%len(demoTeams)]
		if round := team / len(demoTeams); round > 0 {
			namespace = fmt.Sprintf("%s-%d", namespace, round+1)
		}
		if err := c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{"team": demoTeams[team%len(demoTeams)]},
		}}); err != nil {
			return nil, err
		}
		first := c.rand.IntN(len(demoNames))
		for i := 0; i < 8+c.rand.IntN(8) && c.made < objects; i++ {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err := c.addApp(object.Key{Namespace: namespace, Name: demoNames[(first+i)%len(demoNames)]}); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// create stores one of the first objects.
func (c *demoCluster) create(obj runtime.Object) error {
	c.made++
	_, err := c.server.Create(obj)
	return err
}

func (c *demoCluster) addNode(i int) error {
	name := fmt.Sprintf("node-%03d", i+1)
	c.nodes = append(c.nodes, name)
	return c.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "eu-1" + demoZones[i%len(demoZones)], "kubernetes.io/arch": "amd64",
		}},
		Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.%d.%d.0/24", 128+i/256, i%256)},
		Status: corev1.NodeStatus{
			Capacity:  corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.168.%d.%d", i/250, i%250+1)}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(),
			}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Debian GNU/Linux 13", ContainerRuntimeVersion: "containerd://2.1.4"},
		},
	})
}

func (c *demoCluster) addApp(key object.Key) error {
	app := &demoApp{Key: key, replicaSet: fmt.Sprintf("%s-%08x", key.Name, c.rand.Uint32())}
	replicas := int32(2 + c.rand.IntN(8))
	labels := map[string]string{"app": key.Name, "tier": demoTiers[c.rand.IntN(len(demoTiers))]}
	template := c.template(key, labels)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: labels}
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: meta(key.Name),
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": key.Name}}, Template: template},
		Status:     appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas},
	}
	stored, err := c.server.Create(deployment)
	if err != nil {
		return err
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: meta(app.replicaSet),
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: deployment.Spec.Selector, Template: template},
		Status:     appsv1.ReplicaSetStatus{Replicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas},
	}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(stored.(*appsv1.Deployment), appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	service := &corev1.Service{
		ObjectMeta: meta(key.Name),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": key.Name}, Type: corev1.ServiceTypeClusterIP,
			ClusterIP: fmt.Sprintf("10.96.%d.%d", c.rand.IntN(256), 1+c.rand.IntN(254)),
			Ports:     []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	config := &corev1.ConfigMap{ObjectMeta: meta(key.Name), Data: map[string]string{"log.level": "info", "workers": "4", "cache.size": "64Mi"}}
	for _, obj := range []runtime.Object{set, service, config} {
		if err := c.create(obj); err != nil {
			return err
		}
	}
	c.made++ // the deployment
	for range replicas {
		pod, err := c.newPod(app)
		if err != nil {
			return err
		}
		c.running(pod)
		if err := c.create(pod); err != nil {
			return err
		}
		app.pods = append(app.pods, pod.Name)
	}
	c.apps = append(c.apps, app)
	return nil
}

func (c *demoCluster) template(key object.Key, labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name:  key.Name,
				Image: fmt.Sprintf("registry.example/%s/%s:1.%d.%d", key.Namespace, key.Name, c.rand.IntN(20), c.rand.IntN(10)),
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env:   []corev1.EnvVar{{Name: "LOG_FORMAT", Value: "json"}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				},
			}},
		},
	}
}

// newPod makes a pod of an app's replica set, which the server still has.
func (c *demoCluster) newPod(app *demoApp) (*corev1.Pod, error) {
	set, err := fetch[*appsv1.ReplicaSet](c.server, appsv1.SchemeGroupVersion.WithResource("replicasets"), object.Key{Namespace: app.Namespace, Name: app.replicaSet})
	if err != nil {
		return nil, err
	}
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[c.rand.IntN(len(letters))]
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.Namespace, Name: app.replicaSet + "-" + string(suffix), Labels: set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec:   set.Spec.Template.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}, nil
}

// running makes a pod one that runs on some node.
func (c *demoCluster) running(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = c.nodes[c.rand.IntN(len(c.nodes))]
	}
	now := metav1.Now()
	restarts := int32(0)
	if n := len(pod.Status.ContainerStatuses); n > 0 {
		restarts = pod.Status.ContainerStatuses[0].RestartCount
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, PodIP: fmt.Sprintf("10.128.%d.%d", c.rand.IntN(256), 1+c.rand.IntN(254)),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: true, RestartCount: restarts,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
}
