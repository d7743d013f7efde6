package stream

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

type panicking struct{}

func (panicking) Decode([]byte) (*corev1.Pod, error)        { panic("index out of range") }
func (panicking) Trim(raw []byte, _ *[]byte) ([]byte, bool) { return raw, true }

// L11: a panic of the decoder quarantines one object and does not end the process.
func TestL11_APanicOfTheDecoderQuarantinesOneObject(t *testing.T) {
	c := protoCodec[*corev1.Pod]{objects: panicking{}}
	r := reading[*corev1.Pod]{codec: c, decoder: c.decoder(true)}
	raw := wiretest.Must(pod(4).Marshal())(t)
	var item object.Item[*corev1.Pod]
	r.read(raw, &item)
	if item.Err == nil || item.Key.Name != pod(4).Name || string(item.Raw) != string(raw) {
		t.Errorf("%+v", item)
	}
	clear(raw)
	if item.Key.Name != pod(4).Name || item.Raw[0] == 0 {
		t.Error("the quarantined item refers to the buffer")
	}
}

func TestTypesOutsideProtodecUseTheirOwnUnmarshal(t *testing.T) {
	d := &generatedDecoder[*corev1.Pod]{make: func() *corev1.Pod { return &corev1.Pod{} }}
	got, err := d.Decode(wiretest.Must(pod(4).Marshal())(t))
	if diff := cmp.Diff(pod(4), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := d.Decode([]byte{0xff}); err == nil {
		t.Error("broken bytes were decoded")
	}
	if _, err := (&generatedDecoder[*struct{}]{make: func() *struct{} { return &struct{}{} }}).Decode(nil); err == nil {
		t.Error("a type without protobuf was decoded")
	}
}

// Strings of a block do not change when more are added.
func TestTextsAreImmutable(t *testing.T) {
	var names texts
	var keys []object.Key
	buf := make([]byte, 0, 64)
	for i := range 5000 {
		p := pod(i)
		buf = append(append(buf[:0], p.Namespace...), p.Name...)
		keys = append(keys, names.key(identity{namespace: buf[:len(p.Namespace)], name: buf[len(p.Namespace):]}))
	}
	keys = append(keys, names.key(identity{name: []byte(strings.Repeat("x", 3*blockSize))}), names.own(object.Key{Namespace: "a", Name: "b"}))
	for i, key := range keys[:5000] {
		if key.Namespace != pod(i).Namespace || key.Name != pod(i).Name {
			t.Fatalf("key %d is now %v", i, key)
		}
	}
	if last := keys[len(keys)-1]; last != (object.Key{Namespace: "a", Name: "b"}) || len(keys[5000].Name) != 3*blockSize || keys[5000].Namespace != "" {
		t.Errorf("%v, %d", last, len(keys[5000].Name))
	}
	if names.key(identity{}) != (object.Key{}) {
		t.Error("nothing has a key")
	}
}
