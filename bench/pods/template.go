package pods

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Words for generated names.
var (
	teams     = []string{"payments", "search", "identity", "ledger", "media", "growth", "logistics", "risk", "core", "data", "edge", "mobile"}
	stages    = []string{"prod", "staging", "canary", "qa", "dev"}
	subjects  = []string{"order", "invoice", "session", "catalog", "profile", "shipment", "pricing", "basket", "mail", "alert", "report", "asset", "token", "audit", "quota", "ranking"}
	roles     = []string{"api", "worker", "gateway", "indexer", "cache", "proxy", "consumer", "scheduler", "exporter", "web"}
	tiers     = []string{"frontend", "backend", "batch", "platform"}
	languages = []string{"go", "java", "node", "python"}
	settings  = []string{"DATABASE_URL", "CACHE_ENDPOINT", "LOG_LEVEL", "OTEL_EXPORTER_OTLP_ENDPOINT", "FEATURE_FLAGS", "MAX_CONNECTIONS", "REQUEST_TIMEOUT", "QUEUE_NAME", "REGION", "SENTRY_ENVIRONMENT", "GOMEMLIMIT", "JAVA_TOOL_OPTIONS", "HTTP_PORT", "METRICS_PORT", "SHARD_COUNT", "RETRY_BUDGET", "KAFKA_BROKERS", "BUCKET"}
	keys      = []string{"zone", "dedicated", "spot", "gpu", "arch", "pool"}
)

// template has what all pods of an application share.
type template struct {
	name        string // of the application and of its deployments
	labels      map[string]string
	annotations map[string]string
	spec        corev1.PodSpec
	images      map[string]string // image to digest
}

func newTemplates(opts Options) []*template {
	templates := make([]*template, opts.Templates)
	for i := range templates {
		templates[i] = newTemplate(i, rand.New(rand.NewPCG(opts.Seed, 0x74656d70+uint64(i))))
	}
	return templates
}

func newTemplate(i int, rng *rand.Rand) *template {
	subject, role := subjects[i%len(subjects)], roles[i/len(subjects)%len(roles)]
	t := &template{name: subject + "-" + role, images: map[string]string{}}
	if again := i / (len(subjects) * len(roles)); again > 0 {
		t.name = fmt.Sprintf("%s-v%d", t.name, again+1)
	}
	release := fmt.Sprintf("%d.%d.%d", 1+rng.IntN(6), rng.IntN(30), rng.IntN(12))
	tier := pick(rng, tiers)
	t.labels = map[string]string{
		AppLabel:                       t.name,
		TierLabel:                      tier,
		"app.kubernetes.io/name":       subject,
		"app.kubernetes.io/component":  role,
		"app.kubernetes.io/version":    release,
		"app.kubernetes.io/part-of":    pick(rng, teams),
		"app.kubernetes.io/managed-by": "Helm",
	}
	t.annotations = map[string]string{
		"prometheus.io/scrape":              "true",
		"prometheus.io/port":                fmt.Sprint(9000 + rng.IntN(100)),
		"checksum/config":                   hex(rng, 64),
		"kubectl.kubernetes.io/restartedAt": birth.AddDate(0, 0, -rng.IntN(90)).Format("2006-01-02T15:04:05Z07:00"),
	}
	if rng.IntN(2) == 0 {
		t.annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true"
	}
	t.spec = t.newSpec(rng, role, release)
	return t
}

func (t *template) newSpec(rng *rand.Rand, role, release string) corev1.PodSpec {
	grace := int64(15 + rng.IntN(60))
	priority := int32(rng.IntN(4) * 1000)
	user := int64(1000 + rng.IntN(5000))
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &grace,
		DNSPolicy:                     corev1.DNSClusterFirst,
		ServiceAccountName:            t.name,
		SecurityContext:               &corev1.PodSecurityContext{RunAsUser: &user},
		SchedulerName:                 corev1.DefaultSchedulerName,
		Priority:                      &priority,
	}
	spec.Volumes = t.volumes(rng)
	spec.Tolerations = tolerations(rng)
	spec.Containers = []corev1.Container{t.container(rng, role, release, spec.Volumes)}
	if rng.IntN(10) == 0 {
		spec.Containers = append(spec.Containers, t.container(rng, "envoy", fmt.Sprintf("1.%d.%d", 28+rng.IntN(6), rng.IntN(9)), spec.Volumes[:1]))
	}
	if rng.IntN(10) == 0 {
		spec.InitContainers = []corev1.Container{{
			Name:                     "migrate",
			Image:                    t.image(rng, "migrate", release),
			Command:                  []string{"/bin/migrate", "--to", release},
			ImagePullPolicy:          corev1.PullIfNotPresent,
			TerminationMessagePath:   corev1.TerminationMessagePathDefault,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}
	}
	return spec
}

func (t *template) image(rng *rand.Rand, name, release string) string {
	image := fmt.Sprintf("registry.example.com/%s/%s:%s", t.name, name, release)
	t.images[image] = fmt.Sprintf("registry.example.com/%s/%s@sha256:%s", t.name, name, hex(rng, 64))
	return image
}

func (t *template) container(rng *rand.Rand, name, release string, volumes []corev1.Volume) corev1.Container {
	no := false
	cpu, memory := int64(50*(1+rng.IntN(20))), int64(64*(1+rng.IntN(32)))
	port := int32(8000 + rng.IntN(1000))
	c := corev1.Container{
		Name:  name,
		Image: t.image(rng, name, release),
		Args:  []string{fmt.Sprintf("--listen=:%d", port)},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Env:   t.env(rng),
		Resources: corev1.ResourceRequirements{
			Requests: quantities(cpu, memory),
			Limits:   quantities(2*cpu, 2*memory),
		},
		LivenessProbe:            probe(rng, "/healthz"),
		ReadinessProbe:           probe(rng, "/readyz"),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		SecurityContext:          &corev1.SecurityContext{AllowPrivilegeEscalation: &no},
	}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name:      v.Name,
			ReadOnly:  v.EmptyDir == nil,
			MountPath: "/var/run/" + v.Name,
		})
	}
	return c
}

// env returns some environment variables of the container, specific to the template.
func (t *template) env(rng *rand.Rand) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "LANGUAGE", Value: pick(rng, languages)}}
	for _, at := range rng.Perm(len(settings))[:1+rng.IntN(3)] {
		env = append(env, corev1.EnvVar{
			Name:  settings[at],
			Value: fmt.Sprintf("%s.%s.svc:%d/%s", strings.ToLower(settings[at][:4]), t.name, 1024+rng.IntN(60000), safe(rng, 6)),
		})
	}
	return append(env, corev1.EnvVar{Name: "API_TOKEN", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: t.name + "-secrets"},
			Key:                  "token-" + safe(rng, 4),
		},
	}})
}

func (t *template) volumes(rng *rand.Rand) []corev1.Volume {
	mode := int32(0o644)
	volumes := []corev1.Volume{
		{Name: "config-" + safe(rng, 4), VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: t.name + "-config"}, DefaultMode: &mode}}},
		{Name: "kube-api-access-" + safe(rng, 5), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: t.name + "-token", DefaultMode: &mode}}},
	}
	if rng.IntN(2) == 0 {
		size := resource.MustParse(fmt.Sprintf("%dMi", 64*(1+rng.IntN(16))))
		volumes = append(volumes, corev1.Volume{Name: "scratch-" + safe(rng, 4), VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}})
	}
	return volumes
}

func tolerations(rng *rand.Rand) []corev1.Toleration {
	seconds := int64(300)
	all := []corev1.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
	}
	for _, at := range rng.Perm(len(keys))[:rng.IntN(3)] {
		all = append(all, corev1.Toleration{
			Key: keys[at], Operator: corev1.TolerationOpEqual, Value: safe(rng, 5), Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return all
}

func probe(rng *rand.Rand, path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP,
		}},
		InitialDelaySeconds: int32(rng.IntN(30)),
		TimeoutSeconds:      int32(1 + rng.IntN(5)),
		PeriodSeconds:       int32(5 + rng.IntN(25)),
		SuccessThreshold:    1,
		FailureThreshold:    3,
	}
}

func quantities(milliCPU, mebibytes int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(mebibytes<<20, resource.BinarySI),
	}
}

// controllerRef returns the reference to the ReplicaSet.
func controllerRef(name, uid string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: asUID(uid),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}
