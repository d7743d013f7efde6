package protodec_test

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/protodec"
)

// checkPeek holds Peek against the generated code: where that accepts, Peek does and
// says the same.
func checkPeek(tb testing.TB, raw []byte) {
	tb.Helper()
	id, err := protodec.Peek(raw)
	if err != nil && (id.Name != nil || id.Namespace != nil || id.UID != nil || id.ResourceVersion != nil) {
		tb.Fatalf("an identity beside an error: %+v", id)
	}
	var want metav1.PartialObjectMetadata
	if want.Unmarshal(raw) != nil {
		return
	}
	if err != nil {
		tb.Fatalf("Peek: %v\n%x", err, raw)
	}
	got := [4]string{string(id.Namespace), string(id.Name), string(id.UID), string(id.ResourceVersion)}
	if got != [4]string{want.Namespace, want.Name, string(want.UID), want.ResourceVersion} {
		tb.Fatalf("Peek gives %q of %+v\n%x", got, want.ObjectMeta, raw)
	}
}

func examplePod(tb testing.TB) []byte {
	tb.Helper()
	raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "41", Labels: map[string]string{"app": "web"},
	}, Spec: corev1.PodSpec{NodeName: "node-1"}}).Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func TestPeekReadsTheIdentityWithoutAllocating(t *testing.T) {
	raw := examplePod(t)
	checkPeek(t, raw)
	if n := testing.AllocsPerRun(100, func() { _, _ = protodec.Peek(raw) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPeekPointsIntoTheBytes(t *testing.T) {
	raw := examplePod(t)
	id, err := protodec.Peek(raw)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, []byte("web"))
	raw[at] = 'W'
	if string(id.Name) != "Web" || cap(id.Name) != len(id.Name) {
		t.Errorf("%q, capacity %d", id.Name, cap(id.Name))
	}
}

func TestPeekMergesMetadataThatComesInPieces(t *testing.T) {
	first := examplePod(t)
	second, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{nil, slices.Concat(first, second), slices.Concat(second, first), slices.Concat(first, []byte{0x0a, 0x00})} {
		checkPeek(t, raw)
	}
}

func TestPeekRejectsInvalidMessages(t *testing.T) {
	whole := examplePod(t)
	for name, raw := range map[string][]byte{
		"cut":                     whole[:len(whole)-1],
		"no metadata message":     {1 << 3, 1},
		"number zero":             {0, 1},
		"end of no group":         {0x0c},
		"metadata cut":            {0x0a, 5, 0x0a},
		"name of the wrong kind":  {0x0a, 2, 0x08, 1},
		"length beyond the bytes": {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"endless tag":             bytes.Repeat([]byte{0xff}, 20),
	} {
		if id, err := protodec.Peek(raw); err == nil {
			t.Errorf("%s: %+v", name, id)
		}
	}
}

func FuzzPeekAsDecoded(f *testing.F) {
	whole := examplePod(f)
	f.Add(whole)
	f.Add(slices.Concat(whole, whole[:20]))
	f.Add([]byte{0x0a, 0x00, 0xfb, 0xff, 0x03, 0x08, 0x01, 0xfc, 0xff, 0x03})
	f.Add([]byte{0x8a, 0x80, 0x80, 0x80, 0x80, 0x01, 0x03, 0x0a, 0x01, 'x'})
	f.Fuzz(func(t *testing.T, raw []byte) { checkPeek(t, raw) })
}
