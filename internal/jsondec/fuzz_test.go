package jsondec

import (
	"encoding/binary"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// seeds are documents worth changing.
func seeds(f *testing.F) {
	f.Add(podDocs(f).next())
	f.Add(newEndless(certificate).next())
	for _, raw := range []string{
		`{}`, `null`, `[]`, `{"kind":"Pod","metadata":{"name":"a","labels":{"a":"b","a":"c"}},"metadata":{"uid":null}}`,
		`{"kind":"Pod","spec":{"containers":[{"name":"\ud83d\ude00","ports":[{"containerPort":1e3}]},null]}}`,
		"{\"kind\":\"\xff\",\"a\":[1,-0,1.5,1e400,9223372036854775808]}", `{"kind":"Secret","data":{"a":"AA=="}}`,
		`{"kind":"PodList","items":[{},{"a":"\""}],"metadata":{"resourceVersion":"1"}}`, "{\"type\":\"ADDED\",\"object\":{}}\n{}",
	} {
		f.Add([]byte(raw))
	}
}

func FuzzDecodePod(f *testing.F) {
	seeds(f)
	tr := trialFor[*corev1.Pod](f)
	f.Fuzz(func(t *testing.T, raw []byte) { tr.check(t, raw) })
}

func FuzzDecodeUnstructured(f *testing.F) {
	seeds(f)
	tr := trialFor[*unstructured.Unstructured](f)
	f.Fuzz(func(t *testing.T, raw []byte) { tr.check(t, raw) })
}

func FuzzDecodeOddities(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"inner":{"quoted":"1"},"array":[1,2,3],"byKey":{"1":"a"},"byText":{"::1":true},"next":{"pp":5},"list":[["a"]]}`))
	tr := trialFor[*oddities](f)
	f.Fuzz(func(t *testing.T, raw []byte) { tr.check(t, raw) })
}

func FuzzPeek(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) { checkPeek(t, raw) })
}

func FuzzScanner(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) { checkScanner(t, raw, seedOf(raw)) })
}

func FuzzFrames(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) { checkFrames(t, raw, seedOf(raw)) })
}

func FuzzSplitEvent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _, _ = SplitEvent(raw) })
}

// seedOf takes a seed from the bytes, so that a failure repeats itself.
func seedOf(raw []byte) int64 {
	var b [8]byte
	copy(b[:], raw[max(0, len(raw)-8):])
	return int64(binary.LittleEndian.Uint64(b[:]))
}
