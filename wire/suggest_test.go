package wire

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
)

// someResources are built-in and custom resources.
var someResources = []Discovered{
	{Resource: podResource, Singular: "pod", ShortNames: []string{"po"}, Preferred: true},
	{Resource: nodeResource, Singular: "node", ShortNames: []string{"no"}, Preferred: true},
	{Resource: object.Resource{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}, Singular: "event", ShortNames: []string{"ev"}, Preferred: true},
	{Resource: object.Resource{Version: "v1", Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true}, Singular: "persistentvolumeclaim", ShortNames: []string{"pvc"}, Preferred: true},
	{Resource: object.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}, Singular: "deployment", ShortNames: []string{"deploy"}, Preferred: true},
	{Resource: object.Resource{Group: "apps", Version: "v1beta1", Resource: "deployments", Kind: "Deployment", Namespaced: true}, Singular: "deployment", ShortNames: []string{"deploy"}},
	{Resource: object.Resource{Group: "events.k8s.io", Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}, Singular: "event", ShortNames: []string{"ev"}, Preferred: true},
	{Resource: object.Resource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Kind: "PodMetrics", Namespaced: true}, Preferred: true},
	{Resource: lampResource, Singular: "lamp", Preferred: true},
}

func TestFindAcceptsTheNamesOfKubectl(t *testing.T) {
	for name, want := range map[string]string{
		"pods": "pods/v1", "pod": "pods/v1", "po": "pods/v1", "Pod": "pods/v1", "PODS": "pods/v1", "pods.v1": "pods/v1",
		"podmetrics": "pods.metrics.k8s.io/v1beta1", "pods.metrics.k8s.io": "pods.metrics.k8s.io/v1beta1",
		"deploy": "deployments.apps/v1", "deployments.apps": "deployments.apps/v1", "deployment.v1beta1.apps": "deployments.apps/v1beta1",
		"events": "events/v1", "ev.events.k8s.io": "events.events.k8s.io/v1", "event.v1.events.k8s.io": "events.events.k8s.io/v1",
		"lamps": "lamps.home.example/v1", "lamp.home.example": "lamps.home.example/v1", "Lamp.v1.home.example": "lamps.home.example/v1",
	} {
		for _, all := range [][]Discovered{someResources, reversed(someResources)} {
			got, ok := find(all, name)
			if !ok || got.Resource.String()+"/"+got.Version != want {
				t.Errorf("%s is %s/%s, %v; want %s", name, got.Resource, got.Version, ok, want)
			}
		}
	}
	for _, name := range []string{"", "podz", "pods.v2", "pods.apps", "deployments.v1", "deployments.v3.apps", "po d", ".", "lamps.example"} {
		if got, ok := find(someResources, name); ok {
			t.Errorf("%q is found as %s", name, got.Resource)
		}
	}
}

func reversed(in []Discovered) []Discovered {
	out := slices.Clone(in)
	slices.Reverse(out)
	return out
}

func TestSuggestionsAreCloseAndFew(t *testing.T) {
	for name, want := range map[string][]string{
		"podz":                   {"pods", "pods.metrics.k8s.io"},
		"nodse":                  {"nodes"}, // a swap
		"noeds":                  {"nodes"},
		"deploymnet":             {"deployments"},
		"deployments.app":        {"deployments.apps"},
		"deployment.extensions":  {"deployments.apps"}, // the group is wrong
		"persistantvolumeclaims": {"persistentvolumeclaims"},
		"PersistentVolumeClam":   {"persistentvolumeclaims"},
		"lmap":                   {"lamps"},
		"evnts":                  {"events", "events.events.k8s.io"},
		"xyzzy":                  nil,
		"":                       nil,
		"q":                      nil,
		"completely.different":   nil,
	} {
		if got := suggest(someResources, name); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// slowDistance is the recursive definition.
func slowDistance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	}
	x, y := a[:len(a)-1], b[:len(b)-1]
	cost := 1
	if a[len(a)-1] == b[len(b)-1] {
		cost = 0
	}
	d := min(slowDistance(x, b)+1, slowDistance(a, y)+1, slowDistance(x, y)+cost)
	if len(a) > 1 && len(b) > 1 && a[len(a)-1] == b[len(b)-2] && a[len(a)-2] == b[len(b)-1] {
		d = min(d, slowDistance(a[:len(a)-2], b[:len(b)-2])+1)
	}
	return d
}

func TestEditDistanceIsTheDefinition(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, limit := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 7).Draw(t, "limit")
		if got, want := editDistance(a, b, limit), min(slowDistance(a, b), limit+1); got != want {
			t.Fatalf("from %q to %q are %d steps up to %d, want %d", a, b, got, limit, want)
		}
	})
}
