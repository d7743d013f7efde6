package jsondec

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/soak"
)

// names are fields of a pod and others that come near.
var names = []string{
	"kind", "apiVersion", "metadata", "name", "namespace", "uid", "resourceVersion", "labels", "annotations", "spec", "status",
	"containers", "env", "value", "ports", "containerPort", "resources", "limits", "requests", "cpu", "memory", "volumes", "creationTimestamp",
	"ownerReferences", "controller", "tolerations", "tolerationSeconds", "livenessProbe", "httpGet", "port", "managedFields", "fieldsV1", "time",
	"Name", "NAME", "na\\u006de", "n\\u00e4me", "unknown", "", "a b", "\xff", "metaData", "items", "generation", "finalizers", "conditions", "type",
	"lastTransitionTime", "securityContext", "runAsUser", "startTime", "args", "command", "data", "deletionGracePeriodSeconds", "matchExpressions",
}

var literals = []string{
	"null", "true", "false", "0", "-0", "1", "-1", "7", "255", "256", "65536", "2147483647", "2147483648", "-2147483648", "-2147483649",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "1.0", "0.5",
	"1e3", "1E-2", "1.5e300", "1e400", "-1e-400", "01", "1.", ".5", "-", "+1", "1e", "0x1", "Infinity", "nul", "tru", "TRUE", "''",
	`""`, `"a"`, `"true"`, `"1"`, `"100m"`, `"1Gi"`, `" 5 "`, `"1.5"`, `"0"`, `"1e3"`, `"12E"`, `"2024-01-02T03:04:05Z"`, `"2024-01-02T03:04:05.678+02:00"`,
	`"2024-01-02T03:04:05.000006Z"`, `"2024-13-02T03:04:05Z"`, `"2024-01-02T03:04:05,5Z"`, `"2024-02-30T00:00:00Z"`, `"24h"`, `"AAECAw=="`, `"AA\nA="`, `"\u0041\u00e9\u20ac"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`,
	`"\ud83d\u0041"`, `"\ud83dx"`, `"\"\\\/\b\f\n\r\t"`, `"\'"`, `"\u12"`, `"\u12G4"`, `"\`, `"a`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\xc3\xa9\"", "\"\xed\xa0\x80\"",
	"\"\xe2\x82\"", `"http"`, `"Pod"`, `"v1"`, `"a/b/c"`, "{}", "[]", "{ }", "[ ]", "[null]", "{\"a\":null}", "[[[]]]", "\"0123456789012345678901234567890é\"",
}

// tree writes a random document: mostly valid, mostly what a pod would have.
func tree(r *rand.Rand, b *strings.Builder, depth int) {
	space := func() {
		if r.Intn(8) == 0 {
			b.WriteString([]string{" ", "\n", "\t", "\r\n", "  ", "\v"}[min(r.Intn(40), 5)%6])
		}
	}
	space()
	switch k := r.Intn(10); {
	case depth > 0 && k < 5:
		b.WriteByte('{')
		for i, n := 0, r.Intn(6); i < n; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			fmt.Fprintf(b, `"%s"`, names[r.Intn(len(names))])
			space()
			b.WriteByte(':')
			tree(r, b, depth-1)
		}
		space()
		b.WriteByte('}')
	case depth > 0 && k < 7:
		b.WriteByte('[')
		for i, n := 0, r.Intn(4); i < n; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			tree(r, b, depth-1)
		}
		b.WriteByte(']')
	default:
		// The first literals are valid and ordinary; take those mostly.
		b.WriteString(literals[r.Intn(1+r.Intn(len(literals)))])
	}
	space()
}

func TestRandomTreesDecodeAsApimachineryDoes(t *testing.T) {
	n := soak.Rounds(5000)
	trials := []*trial{
		trialFor[*corev1.Pod](t), trialFor[*metav1.PartialObjectMetadata](t), trialFor[*unstructured.Unstructured](t),
		trialFor[*corev1.Secret](t), trialFor[*oddities](t),
	}
	r := rand.New(rand.NewSource(3))
	for range n {
		var b strings.Builder
		tree(r, &b, 5)
		raw := b.String()
		if r.Intn(2) == 0 {
			raw = `{"kind":"Pod",` + `"metadata":` + raw + "}"
		}
		trials[r.Intn(len(trials))].check(t, []byte(raw))
	}
	for _, tr := range trials {
		t.Logf("%v: %d accepted, %d of them the fast way", tr.t, tr.accepted, tr.fast)
		if tr.fast < n/100 {
			t.Errorf("%v: only %d went the fast way", tr.t, tr.fast)
		}
	}
}

func TestEveryLiteralInEveryFieldDecodesAsApimachineryDoes(t *testing.T) {
	// Each field of a pod's first container, its metadata and a few more get each
	// literal once: wrong types, ranges and nulls where they are least expected.
	at := []string{
		`{"kind":"Pod","metadata":{"name":%s}}`, `{"kind":"Pod","metadata":{"labels":%s}}`, `{"kind":"Pod","metadata":{"labels":{"a":%s}}}`,
		`{"kind":"Pod","metadata":%s}`, `{"kind":%s}`, `{"kind":"Pod","apiVersion":%s}`, `{"kind":"Pod","metadata":{"creationTimestamp":%s}}`, `%s`,
		`{"kind":"Pod","metadata":{"deletionTimestamp":%s,"generation":3}}`, `{"kind":"Pod","metadata":{"generation":%s}}`,
		`{"kind":"Pod","metadata":{"ownerReferences":[{"controller":%s}]}}`, `{"kind":"Pod","metadata":{"finalizers":%s}}`,
		`{"kind":"Pod","metadata":{"managedFields":[{"fieldsV1":%s}]}}`, `{"kind":"Pod","spec":{"containers":%s}}`, `{"kind":"Pod","spec":{"containers":[%s]}}`,
		`{"kind":"Pod","spec":{"containers":[{"ports":[{"containerPort":%s}]}]}}`, `{"kind":"Pod","spec":{"containers":[{"resources":{"limits":{"cpu":%s}}}]}}`,
		`{"kind":"Pod","spec":{"containers":[{"resources":{"limits":%s}}]}}`, `{"kind":"Pod","spec":{"containers":[{"livenessProbe":{"httpGet":{"port":%s}}}]}}`,
		`{"kind":"Pod","spec":{"terminationGracePeriodSeconds":%s}}`, `{"kind":"Pod","spec":{"hostNetwork":%s}}`, `{"kind":"Pod","spec":{"securityContext":%s}}`,
		`{"kind":"Pod","spec":{"nodeSelector":{"a":"b"},"nodeSelector":%s}}`, `{"kind":"Pod","metadata":{"name":"x"},"metadata":%s}`,
		`{"kind":"Pod","spec":{"containers":[{"name":"x"},{"name":"y"}],"containers":[%s]}}`,
		`{"data":{"a":%s}}`, `{"data":%s}`, `{"quoted":%s}`, `{"number":%s}`, `{"array":%s}`, `{"any":%s}`, `{"iface":%s}`, `{"inner":%s}`, `{"flat":%s}`,
		`{"uint":%s}`, `{"f32":%s}`, `{"f64":%s}`, `{"byKey":{"1":%s}}`, `{"byKey":%s}`, `{"i8":%s}`, `{"i16":%s}`, `{"byText":%s}`, `{"pp":%s}`, `{"duration":%s}`, `{"micro":%s}`,
		`{"raw":%s}`, `{"bytes":%s}`, `{"named":%s}`, `{"list":%s}`, `{"structs":{"k":%s}}`, `{"next":%s}`, `{"Untagged":%s}`, `{"-":%s}`, `{"same":%s}`, `{"embedded":%s}`,
	}
	trials := []*trial{trialFor[*corev1.Pod](t), trialFor[*unstructured.Unstructured](t), trialFor[*corev1.Secret](t), trialFor[*oddities](t), trialFor[*embedding](t)}
	for _, format := range soak.Part(at) {
		for _, literal := range literals {
			for _, tr := range trials {
				tr.check(t, []byte(strings.Replace(format, "%s", literal, 1)))
			}
		}
	}
}

func TestNestingIsLimitedAsInEncodingJSON(t *testing.T) {
	soak.Measures(t)
	pod, untyped := trialFor[*corev1.Pod](t), trialFor[*unstructured.Unstructured](t)
	for _, depth := range []int{1, 100, maxDepth - 2, maxDepth - 1, maxDepth, maxDepth + 1} {
		for _, around := range []string{"[]", `{"a":}`} {
			before, after := around[:len(around)-1], around[len(around)-1:]
			raw := []byte(`{"kind":"Pod","x":` + strings.Repeat(before, depth) + "1" + strings.Repeat(after, depth) + "}")
			pod.check(t, raw)
			untyped.check(t, raw)
			if open := slices.Clone(raw[:len(raw)/2]); len(open) > 0 {
				pod.check(t, open)
			}
		}
	}
}
