// Package crds generates custom resources for the benchmarks: Releases, an invented kind with
// about 2 kB of JSON, similar to those of delivery tools. The same [Options] produce the same
// objects.
//
// They have about a dozen shapes: values with and without probes, hosts, sidecars and
// limits, integers and floats, lists of maps, empty maps, two or three conditions, a
// history of one or two entries, and managed fields of two managers.
package crds

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

// Resource is the resource of the objects.
var Resource = object.Resource{
	Group: "delivery.example.com", Version: "v1", Resource: "releases", Kind: "Release", Namespaced: true,
}

// Options configure Generate. The zero Options produce one thousand objects.
type Options struct {
	// Objects is the number of objects. Defaults to 1,000.
	Objects int
	// Namespaces is the number of namespaces. Defaults to 200.
	Namespaces int
	// Seed is the random seed. Defaults to 1.
	Seed uint64
}

func (o Options) withDefaults() Options {
	if o.Objects <= 0 {
		o.Objects = 1_000
	}
	if o.Namespaces <= 0 {
		o.Namespaces = 200
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	return o
}

// firstVersion is the resource version of the first object.
const firstVersion = 73_000_000

// LastVersion returns a version after that of every object that Generate makes.
func LastVersion(opts Options) uint64 {
	return firstVersion + 3*uint64(opts.withDefaults().Objects)
}

var birth = time.Date(2026, 1, 12, 6, 30, 0, 0, time.UTC)

var (
	teams  = []string{"payments", "search", "identity", "ledger", "catalog", "shipping", "media", "risk"}
	apps   = []string{"gateway", "indexer", "scheduler", "exporter", "webhook", "consumer", "frontend", "proxy", "archiver", "notifier"}
	tiers  = []string{"gold", "silver", "bronze"}
	charts = []string{"service", "worker", "cronjob", "stateful", "static-site"}
)

// Generate returns the objects, in the order of a server's list.
func Generate(opts Options) []*unstructured.Unstructured {
	opts = opts.withDefaults()
	out := make([]*unstructured.Unstructured, opts.Objects)
	for i := range out {
		out[i] = generate(opts, i)
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// generate returns the ith object. It depends only on the options and i.
func generate(opts Options, i int) *unstructured.Unstructured {
	rng := rand.New(rand.NewPCG(opts.Seed, 0x63726473_00000000+uint64(i)))
	inEach := (opts.Objects + opts.Namespaces - 1) / opts.Namespaces
	at := i / inEach
	team, app, tier := teams[at%len(teams)], pick(rng, apps), pick(rng, tiers)
	created := birth.Add(time.Duration(i) * 17 * time.Second)
	name := fmt.Sprintf("%s-%05d-%s", app, i%inEach, hex(rng, 5))
	generation := 1 + rng.IntN(30)
	labels := map[string]any{
		"app.kubernetes.io/name":       app,
		"app.kubernetes.io/part-of":    team,
		"app.kubernetes.io/managed-by": "delivery-operator",
		"delivery.example.com/tier":    tier,
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "delivery.example.com/v1",
		"kind":       "Release",
		"metadata": map[string]any{
			"name":              name,
			"namespace":         fmt.Sprintf("%s-%s-%03d", team, []string{"prod", "stage", "dev"}[at%3], at),
			"uid":               uid(rng),
			"resourceVersion":   strconv.Itoa(firstVersion + 3*i + rng.IntN(3)),
			"generation":        int64(generation),
			"creationTimestamp": stamp(created),
			"labels":            labels,
			"annotations": map[string]any{
				"delivery.example.com/revision": "main/" + hex(rng, 12),
			},
			"finalizers":    []any{"finalizers.delivery.example.com"},
			"managedFields": managedFields(created),
		},
		"spec":   spec(rng, team, app),
		"status": status(rng, created, generation),
	}}
}

func spec(rng *rand.Rand, team, app string) map[string]any {
	image := fmt.Sprintf("registry.example.com/%s/%s", team, app)
	values := map[string]any{
		"replicas": int64(1 + rng.IntN(12)),
		"image":    map[string]any{"repository": image, "tag": version(rng), "pullPolicy": "IfNotPresent"},
		"resources": map[string]any{
			"requests": map[string]any{"cpu": fmt.Sprintf("%dm", 50*(1+rng.IntN(20))), "memory": fmt.Sprintf("%dMi", 64*(1+rng.IntN(16)))},
		},
		"nodeSelector": map[string]any{},
		"env":          env(rng, team),
	}
	if rng.IntN(2) == 0 {
		values["autoscaling"] = map[string]any{"enabled": true, "min": int64(2), "max": int64(4 + rng.IntN(30)), "target": 0.5 + float64(rng.IntN(8))/20}
	}
	if rng.IntN(3) > 0 {
		values["probes"] = map[string]any{"path": "/healthz", "port": int64(8080), "periodSeconds": int64(5 * (1 + rng.IntN(4)))}
	}
	if rng.IntN(3) == 0 {
		values["ingress"] = map[string]any{"enabled": true, "hosts": []any{
			map[string]any{"host": fmt.Sprintf("%s.%s.example.com", app, team), "paths": []any{"/", "/api"}, "weight": int64(rng.IntN(101))},
		}}
	}
	s := map[string]any{
		"chart":    map[string]any{"name": pick(rng, charts), "repository": "https://charts.example.com/stable", "version": version(rng)},
		"interval": "10m0s",
		"suspend":  rng.IntN(20) == 0,
		"values":   values,
	}
	if rng.IntN(2) == 0 {
		s["dependsOn"] = []any{map[string]any{"name": "database-" + hex(rng, 4), "namespace": team + "-data"}}
	}
	return s
}

func env(rng *rand.Rand, team string) []any {
	out := []any{map[string]any{"name": "TEAM", "value": team}}
	for i := range rng.IntN(3) {
		name := []string{"LOG_LEVEL", "QUEUE_URL"}[i]
		out = append(out, map[string]any{"name": name, "value": "v-" + hex(rng, 8)})
	}
	return out
}

func status(rng *rand.Rand, created time.Time, generation int) map[string]any {
	at := created.Add(time.Duration(1+rng.IntN(3600)) * time.Second)
	conditions := []any{
		condition("Ready", "ReconciliationSucceeded", "reconciliation succeeded", at),
		condition("Released", "UpgradeSucceeded", "upgrade succeeded after "+strconv.Itoa(1+rng.IntN(90))+"s", at),
	}
	if rng.IntN(3) == 0 {
		conditions = append(conditions, condition("TestsPassed", "TestSucceeded", "2 of 2 tests passed", at))
	}
	var history []any
	for n := range 1 + rng.IntN(4)/3 {
		history = append(history, map[string]any{
			"digest": "sha256:" + hex(rng, 64), "revision": int64(generation + n), "status": "deployed", "deployed": stamp(at),
		})
	}
	return map[string]any{
		"conditions":         conditions,
		"history":            history,
		"observedGeneration": int64(generation),
		"ready":              true,
	}
}

func condition(kind, reason, message string, at time.Time) map[string]any {
	return map[string]any{
		"type": kind, "status": "True", "reason": reason, "message": message,
		"lastTransitionTime": stamp(at),
	}
}

func managedFields(created time.Time) []any {
	entry := func(manager, operation, part string, fields map[string]any) map[string]any {
		e := map[string]any{
			"manager": manager, "operation": operation, "apiVersion": "delivery.example.com/v1",
			"time": stamp(created), "fieldsType": "FieldsV1", "fieldsV1": fields,
		}
		if part != "" {
			e["subresource"] = part
		}
		return e
	}
	none := func() map[string]any { return map[string]any{} }
	return []any{
		entry("delivery-ci", "Apply", "", map[string]any{"f:spec": map[string]any{"f:chart": none(), "f:interval": none(), "f:values": none()}}),
		entry("delivery-operator", "Update", "status", map[string]any{"f:status": map[string]any{".": none(), "f:conditions": none(), "f:history": none()}}),
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func version(rng *rand.Rand) string {
	return fmt.Sprintf("%d.%d.%d", 1+rng.IntN(4), rng.IntN(30), rng.IntN(12))
}

func hex(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[rng.IntN(16)]
	}
	return string(b)
}

func uid(rng *rand.Rand) string {
	h := hex(rng, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func pick[E any](rng *rand.Rand, from []E) E { return from[rng.IntN(len(from))] }
