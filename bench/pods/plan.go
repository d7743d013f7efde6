package pods

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// deployment is a template in one namespace.
type deployment struct {
	*template
	namespace string
	hash      string // pod-template-hash
	owner     string // UID of the ReplicaSet
	pods      int    // planned so far
}

// planned is a pod before it is built: the fields in which it differs from the others of its
// deployment.
type planned struct {
	*deployment
	name   string
	serial int // in the order of creation
	node   int
	canary bool
}

// versionStep is the approximate number of writes between the creation of two pods.
const versionStep = 7

// newPlan returns the pods to build, sorted by namespace and name.
func newPlan(opts Options, templates []*template) []planned {
	rng := rand.New(rand.NewPCG(opts.Seed, 0x706c616e))
	deployments := newDeployments(opts, templates, rng)
	// A few deployments are large and most are small.
	weights := make([]float64, len(deployments))
	total := 0.0
	for i := range weights {
		total += 1 / (0.02 + rng.Float64())
		weights[i] = total
	}
	nodes := rng.Perm(opts.Objects)
	canaries := rng.Perm(opts.Objects)
	plan := make([]planned, opts.Objects)
	for i := range plan {
		d := deployments[i%len(deployments)]
		if i >= len(deployments) {
			at, _ := slices.BinarySearch(weights, rng.Float64()*total)
			d = deployments[min(at, len(deployments)-1)]
		}
		plan[i] = planned{
			deployment: d,
			name:       d.name + "-" + d.hash + "-" + suffix(d.pods),
			serial:     i,
			node:       nodes[i] % opts.Nodes,
			canary:     canaries[i] < opts.Objects/1000,
		}
		d.pods++
	}
	slices.SortFunc(plan, func(a, b planned) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return plan
}

// newDeployments deploys every template to a few namespaces. The order is random, except that
// one deployment of every template and namespace comes first, so that small plans include all
// of them.
func newDeployments(opts Options, templates []*template, rng *rand.Rand) []*deployment {
	namespaces := make([]string, opts.Namespaces)
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("%s-%s-%02d", pick(rng, teams), pick(rng, stages), i)
	}
	var first, more []*deployment
	add := func(to *[]*deployment, t *template, namespace string) {
		*to = append(*to, &deployment{
			template:  t,
			namespace: namespace,
			hash:      safe(rng, 10),
			owner:     uid(rng),
		})
	}
	for i := range max(len(templates), len(namespaces)) {
		add(&first, templates[i%len(templates)], namespaces[i%len(namespaces)])
	}
	for i, t := range templates {
		for k := 1 + rng.IntN(6); k > 0; k-- {
			add(&more, t, namespaces[(i+k)%len(namespaces)])
		}
	}
	rng.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
	return append(first, more...)
}

// alphanums are the characters that Kubernetes uses in generated names.
const alphanums = "bcdfghjklmnpqrstvwxz2456789"

// suffix returns the five characters at the end of the nth name of a deployment. The factor is
// coprime to the number of suffixes, so none repeats.
func suffix(n int) string {
	const all = 27 * 27 * 27 * 27 * 27
	x := (n*6_180_341 + 987_654) % all
	var b [5]byte
	for i := range b {
		b[i], x = alphanums[x%27], x/27
	}
	return string(b[:])
}

// safe returns n random characters for a name.
func safe(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphanums[rng.IntN(len(alphanums))]
	}
	return string(b)
}

// hex returns n random hexadecimal digits.
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
