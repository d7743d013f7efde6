package protodec

import (
	"encoding/binary"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

// bytesField encodes a field with a length.
func bytesField(number int, content ...byte) []byte {
	raw := binary.AppendUvarint(nil, uint64(number)<<3|wireBytes)
	raw = binary.AppendUvarint(raw, uint64(len(content)))
	return append(raw, content...)
}

func textField(number int, text string) []byte { return bytesField(number, []byte(text)...) }

func varintField(number int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), v)
}

// What the generated code does with messages that no encoder writes.
func TestOddMessagesFareAsGenerated(t *testing.T) {
	const data = 2 // of a ConfigMap: map[string]string
	entry := slices.Concat(textField(1, "key"), textField(2, "value"))
	for _, c := range []struct {
		name    string
		typ     reflect.Type
		raw     []byte
		refused bool
	}{
		{name: "map entry without a key", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data, textField(2, "v")...)},
		{name: "map entry without a value", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data, textField(1, "k")...)},
		{name: "empty map entry", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data)},
		{name: "map entry with two keys and values", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data, slices.Concat(entry, textField(2, "w"), textField(1, "l"))...)},
		{name: "map entry whose key has the wrong wire type", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data, slices.Concat([]byte{1<<3 | wireFixed32, 1, 'k'}, textField(2, "v"))...)},
		{name: "map key twice", typ: reflect.TypeFor[corev1.ConfigMap](), raw: slices.Concat(bytesField(data, entry...), bytesField(data, slices.Concat(textField(1, "key"), textField(2, "last"))...))},
		{name: "map entry with an end of no group", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data, 3<<3|wireEnd, 3<<3|wireGroup), refused: true},
		{name: "map entry with field zero", typ: reflect.TypeFor[corev1.ConfigMap](), raw: bytesField(data, 0, 1)},
		{name: "map with something between its entries", typ: reflect.TypeFor[corev1.ConfigMap](), raw: slices.Concat(bytesField(data, entry...), unknowns[0], bytesField(data, textField(1, "k")...))},
		{name: "key that runs over its entry", typ: reflect.TypeFor[corev1.ConfigMap](), raw: slices.Concat([]byte{data<<3 | wireBytes, 3, 1<<3 | wireBytes, 3, 'k'}, unknowns[0])},
		{name: "key that runs over the message", typ: reflect.TypeFor[corev1.ConfigMap](), raw: []byte{data<<3 | wireBytes, 3, 1<<3 | wireBytes, 3, 'k'}, refused: true},
		{name: "bytes map entry without a value", typ: reflect.TypeFor[corev1.Secret](), raw: bytesField(2, textField(1, "k")...)},
		{name: "message map entry without a value", typ: reflect.TypeFor[policyv1.PodDisruptionBudget](), raw: bytesField(3, bytesField(2, textField(1, "k")...)...)},
		{name: "message map entry with a bad value before a good one", typ: reflect.TypeFor[policyv1.PodDisruptionBudget](), raw: bytesField(3, bytesField(2, slices.Concat(textField(1, "k"), bytesField(2, 0xff), bytesField(2))...)...), refused: true},
		{name: "packed numbers", typ: reflect.TypeFor[corev1.PodPortForwardOptions](), raw: bytesField(1, 80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)},
		{name: "packed numbers and others", typ: reflect.TypeFor[corev1.PodPortForwardOptions](), raw: slices.Concat(varintField(1, 80), bytesField(1, 81, 82), varintField(1, math.MaxUint64))},
		{name: "no packed numbers", typ: reflect.TypeFor[corev1.PodPortForwardOptions](), raw: bytesField(1)},
		{name: "number that runs over its pack", typ: reflect.TypeFor[corev1.PodPortForwardOptions](), raw: slices.Concat([]byte{1<<3 | wireBytes, 2, 80, 0x81}, []byte{0x01}, varintField(1, 7))},
		{name: "quantity with a length that overflows", typ: reflect.TypeFor[corev1.ResourceQuota](), raw: bytesField(2, bytesField(1, slices.Concat(textField(1, "cpu"), bytesField(2, slices.Concat([]byte{1<<3 | wireBytes}, binary.AppendUvarint(nil, math.MaxInt64))...))...)...), refused: true},
		{name: "quantity that is none", typ: reflect.TypeFor[corev1.ResourceQuota](), raw: bytesField(2, bytesField(1, slices.Concat(textField(1, "cpu"), bytesField(2, textField(1, "lots")...))...)...), refused: true},
		{name: "text that is not UTF-8", typ: reflect.TypeFor[corev1.Pod](), raw: bytesField(1, textField(1, "\xff\xfe")...)},
		{name: "length beyond 63 bits", typ: reflect.TypeFor[corev1.Pod](), raw: slices.Concat([]byte{1<<3 | wireBytes}, binary.AppendUvarint(nil, math.MaxUint64)), refused: true},
		{name: "metadata in pieces", typ: reflect.TypeFor[corev1.Pod](), raw: slices.Concat(bytesField(1, textField(1, "a")...), bytesField(1, textField(3, "b")...), bytesField(1, textField(1, "c")...))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if accepted := newLineup(t, c.typ).check(t, c.raw); accepted == c.refused {
				t.Errorf("accepted: %v", accepted)
			}
		})
	}
}

// What follows an entry may be part of its key. A table that went by the entry's own
// bytes would give the second map the key of the first.
func TestAKeyThatRunsOverItsEntryIsNotShared(t *testing.T) {
	l := newLineup(t, reflect.TypeFor[corev1.ConfigMap]())
	entry := []byte{2<<3 | wireBytes, 3, 1<<3 | wireBytes, 4, 'k'}
	for range 4 {
		for _, tail := range []uint64{0x7071, 0x7072} {
			if !l.check(t, slices.Concat(entry, varintField(500, tail))) {
				t.Fatal("refused")
			}
		}
	}
}

// measure has fields of the kinds that no type of k8s.io/api has.
type measure struct {
	Ratio    float64  `json:"ratio" protobuf:"fixed64,1,opt,name=ratio"`
	Limit    *float64 `json:"limit" protobuf:"fixed64,2,opt,name=limit"`
	Small    float32  `json:"small" protobuf:"fixed32,3,opt,name=small"`
	SmallPtr *float32 `json:"smallPtr" protobuf:"fixed32,4,opt,name=smallPtr"`
	Count    uint64   `json:"count" protobuf:"varint,5,opt,name=count"`
	Counts   []uint32 `json:"counts" protobuf:"varint,6,rep,name=counts"`
	Inner    *measure `json:"inner" protobuf:"bytes,7,opt,name=inner"`
}

// Unmarshal marks measure as a message; the decoder goes by the tags.
func (*measure) Unmarshal([]byte) error { panic("not for use") }

func TestFloatsAndUnsignedNumbers(t *testing.T) {
	d, err := For[*measure](Options{})
	if err != nil {
		t.Fatal(err)
	}
	fixed64 := func(number int, v float64) []byte {
		return binary.LittleEndian.AppendUint64([]byte{byte(number<<3 | wireFixed64)}, math.Float64bits(v))
	}
	fixed32 := func(number int, v float32) []byte {
		return binary.LittleEndian.AppendUint32([]byte{byte(number<<3 | wireFixed32)}, math.Float32bits(v))
	}
	raw := slices.Concat(fixed64(1, 0.5), fixed64(2, -2), fixed32(3, 1.5), fixed32(4, 3), varintField(5, math.MaxUint64), varintField(6, 1<<32-1))
	limit, small := -2.0, float32(3)
	want := &measure{Ratio: 0.5, Limit: &limit, Small: 1.5, SmallPtr: &small, Count: math.MaxUint64, Counts: []uint32{1<<32 - 1}}
	if got, err := d.Decode(raw); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, bad := range map[string][]byte{
		"short double": fixed64(1, 1)[:8], "short float": fixed32(3, 1)[:4],
		"a double as float": fixed32(1, 1), "a float as double": fixed64(3, 1), "a float as varint": varintField(3, 1),
	} {
		if got, err := d.Decode(bad); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	soak.Measures(t)
	for _, opts := range []Options{{}, {Share: intern.NewParts(0)}} {
		d, err := For[*measure](opts)
		if err != nil {
			t.Fatal(err)
		}
		var raw []byte
		for range 1_000 {
			raw = bytesField(7, raw...)
		}
		if _, err := d.Decode(raw); err != nil {
			t.Errorf("a depth of a thousand: %v", err)
		}
		for range maxDepth {
			raw = bytesField(7, raw...)
		}
		if _, err := d.Decode(raw); err == nil || !strings.Contains(err.Error(), errDepth.Error()) {
			t.Errorf("too deep: %v", err)
		}
		// What a failure left behind does not count against the next.
		if _, err := d.Decode(bytesField(7)); err != nil {
			t.Error(err)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileInputAllocatesInProportion(t *testing.T) {
	soak.Measures(t)
	long := strings.Repeat("x", 100_000)
	pieces := func(n int, piece ...byte) []byte { return slices.Repeat(piece, n) }
	name := func(s string) []byte { return bytesField(1, textField(1, s)...) }
	key := bytesField(11, textField(1, "k")...) // an entry of metadata.labels
	for what, raw := range map[string][]byte{
		"a name given often, the last one long":    slices.Concat(pieces(50_000, name("y")...), name(long)),
		"names in one metadata, the last one long": bytesField(1, slices.Concat(pieces(50_000, textField(1, "y")...), textField(1, long))...),
		"a length of which nothing is there":       {1<<3 | wireBytes, 0xff, 0xff, 0xff, 0xff, 0x07},
		"two lists in turns":                       bytesField(1, pieces(20_000, slices.Concat(textField(14, "f"), key)...)...),
		"empty entries":                            bytesField(1, pieces(100_000, 11<<3|wireBytes, 0)...),
	} {
		for how, opts := range map[string]Options{"plain": {}, "shared": {Share: intern.NewParts(0)}} {
			d, err := For[*metav1.PartialObjectMetadata](opts)
			if err != nil {
				t.Fatal(err)
			}
			if n := allocated(func() { _, _ = d.Decode(raw) }); n > 200*uint64(len(raw))+100_000 {
				t.Errorf("%s, %s: %d bytes for %d", what, how, n, len(raw))
			}
		}
	}
}

func TestErrorsNameTheTypeAndNotTheContents(t *testing.T) {
	d, err := For[*corev1.Secret](Options{})
	if err != nil {
		t.Fatal(err)
	}
	raw := slices.Concat(bytesField(2, slices.Concat(textField(1, "hunter2"), textField(2, "hunter2"))...), []byte{0xff})
	_, err = d.Decode(raw)
	want := "protodec: decode v1.Secret: the message ends within a field"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
