package protodec_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/protodec"
)

// Types that cannot be compiled, each for a reason of its own.
type (
	sameNumber struct {
		A string `json:"a" protobuf:"bytes,1,opt,name=a"`
		B string `json:"b" protobuf:"bytes,1,opt,name=b"`
	}
	noNumber struct {
		A string `json:"a" protobuf:"bytes"`
	}
	zigzag struct {
		A int32 `json:"a" protobuf:"zigzag32,1,opt,name=a"`
	}
	fixedInt struct {
		A int32 `json:"a" protobuf:"fixed32,1,opt,name=a"`
	}
	numberKeys struct {
		A map[int32]string `json:"a" protobuf:"bytes,1,rep,name=a"`
	}
	pointers struct {
		A []*corev1.Pod `json:"a" protobuf:"bytes,1,rep,name=a"`
	}
	function struct {
		A func() `json:"a" protobuf:"bytes,1,opt,name=a"`
	}
	plain struct {
		A struct{ B string } `json:"a" protobuf:"bytes,1,opt,name=a"`
	}
)

func (*sameNumber) Unmarshal([]byte) error { return nil }
func (*noNumber) Unmarshal([]byte) error   { return nil }
func (*zigzag) Unmarshal([]byte) error     { return nil }
func (*fixedInt) Unmarshal([]byte) error   { return nil }
func (*numberKeys) Unmarshal([]byte) error { return nil }
func (*pointers) Unmarshal([]byte) error   { return nil }
func (*function) Unmarshal([]byte) error   { return nil }
func (*plain) Unmarshal([]byte) error      { return nil }

func TestSupportedSaysWhyNot(t *testing.T) {
	for want, typ := range map[string]reflect.Type{
		"field B: number 1 is taken":             reflect.TypeFor[sameNumber](),
		"no usable number in the tag \"bytes\"":  reflect.TypeFor[noNumber](),
		"encoded as zigzag32, is not supported":  reflect.TypeFor[zigzag](),
		"encoded as fixed32, is not supported":   reflect.TypeFor[fixedInt](),
		"map[int32]string is not supported":      reflect.TypeFor[numberKeys](),
		"[]*v1.Pod is not supported":             reflect.TypeFor[pointers](),
		"func() is not supported":                reflect.TypeFor[function](),
		"it has no Unmarshal method":             reflect.TypeFor[unstructured.Unstructured](),
		"field A: type struct { B string }: it ": reflect.TypeFor[plain](),
		"int is not a struct":                    reflect.TypeFor[int](),
	} {
		err := protodec.Supported(typ)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", typ, err, want)
		}
	}
	if err := protodec.Supported(reflect.TypeFor[*corev1.Pod]()); err != nil {
		t.Error(err)
	}
}

func TestForWantsAPointerToAStruct(t *testing.T) {
	if _, err := protodec.For[corev1.Pod](protodec.Options{}); err == nil {
		t.Error("took a struct")
	}
	if _, err := protodec.For[*unstructured.Unstructured](protodec.Options{}); err == nil {
		t.Error("took a type without generated code")
	}
}

// own has fields that its tags do not speak of, and so its own Unmarshal counts.
type own struct {
	Said string `json:"said"`
}

// Unmarshal takes anything.
func (o *own) Unmarshal(b []byte) error {
	o.Said += string(b)
	return nil
}

type holder struct {
	Value own            `json:"value" protobuf:"bytes,1,opt,name=value"`
	Ptr   *own           `json:"ptr" protobuf:"bytes,2,opt,name=ptr"`
	List  []own          `json:"list" protobuf:"bytes,3,rep,name=list"`
	Map   map[string]own `json:"map" protobuf:"bytes,4,rep,name=map"`
}

// Unmarshal is never called: the tags say how to decode.
func (*holder) Unmarshal([]byte) error { return nil }

func TestATypeWithItsOwnUnmarshalIsAskedToDecodeItself(t *testing.T) {
	raw := []byte("\x0a\x01a\x0a\x01b\x12\x01c\x12\x01d\x1a\x01e\x1a\x01f\x22\x06\x0a\x01k\x12\x01g")
	want := &holder{Value: own{"ab"}, Ptr: &own{"cd"}, List: []own{{"e"}, {"f"}}, Map: map[string]own{"k": {"g"}}}
	for _, opts := range []protodec.Options{{}, {Share: intern.NewParts(0)}} {
		d, err := protodec.For[*holder](opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got, err := d.Decode(raw); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
}
