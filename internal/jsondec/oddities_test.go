package jsondec

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// oddities has a field for every shape of Go type that JSON can be decoded into, with
// or without a fast way for it.
type oddities struct {
	metav1.TypeMeta `json:",inline"`
	Meta            metav1.ObjectMeta           `json:"metadata"`
	Number          json.Number                 `json:"number"`
	Array           [2]int                      `json:"array"`
	Any             any                         `json:"any"`
	Iface           io.Reader                   `json:"iface"`
	Inner           *inner                      `json:"inner"`
	Uint            uint16                      `json:"uint"`
	F32             float32                     `json:"f32"`
	F64             *float64                    `json:"f64"`
	ByKey           map[int]string              `json:"byKey"`
	ByText          map[netip.Addr]bool         `json:"byText"`
	I8              int8                        `json:"i8"`
	I16             *int16                      `json:"i16"`
	PP              **int                       `json:"pp"`
	Duration        metav1.Duration             `json:"duration"`
	Micro           *metav1.MicroTime           `json:"micro"`
	Raw             runtime.RawExtension        `json:"raw"`
	Bytes           []byte                      `json:"bytes"`
	Named           map[namedString]namedString `json:"named"`
	List            [][]namedString             `json:"list"`
	Structs         map[string]*inner           `json:"structs"`
	Next            *oddities                   `json:"next"`
	Untagged        int
	Hidden          int `json:"-"`
	hidden          int
	//lint:ignore SA5008 a field named "-"
	Dash int `json:"-,"`
	//lint:ignore SA5008 a name that encoding/json does not take
	BadTag int `json:"a\"b"`
}

type namedString string

// inner has what makes a struct go the slow way.
type inner struct {
	Quoted  int  `json:"quoted,string"`
	QuotedP *int `json:"quotedp,string"`
	Flat    bool `json:"flat"`
}

// embedding has all forms of embedding.
type embedding struct {
	Flat
	*Pointed
	Named `json:"embedded"`
	Same  string `json:"same"`
}

type (
	// Flat is embedded as it is.
	Flat struct {
		Flat string `json:"flat"`
		Same int    `json:"same"`
	}
	// Pointed is embedded by a pointer.
	Pointed struct {
		Uint uint `json:"uint"`
	}
	// Named is embedded under a name.
	Named struct{ Any any }
)

func TestForTakesPointersToStructsOnly(t *testing.T) {
	_ = oddities{}.hidden
	for _, typ := range []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[oddities](), reflect.TypeFor[*int](), reflect.TypeFor[**oddities](), reflect.TypeFor[map[string]any](), reflect.TypeFor[any](),
	} {
		if m, err := newMachine(typ, Options{}); err == nil {
			t.Errorf("%v: %v", typ, m)
		}
	}
	_, err := For[oddities](Options{})
	if want := "jsondec: cannot decode into a jsondec.oddities; want a pointer to a struct"; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDuplicateFieldsAreMergedAsInEncodingJSON(t *testing.T) {
	tr := trialFor[*oddities](t)
	for _, raw := range []string{
		`{"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"uid":"u","labels":{"y":"2"}}}`,
		`{"metadata":{"name":"a"},"metadata":null}`,
		`{"metadata":{"name":"a","name":null}}`,
		`{"list":[["a","b"],["c"]],"list":[["x"]],"list":[["y","z"],["w","v"]]}`,
		`{"structs":{"k":{"flat":true},"k":{"quoted":"1"}}}`,
		`{"inner":{"flat":true},"inner":{"quoted":"2"}}`,
		`{"any":{"a":1},"any":{"b":2}}`,
		`{"any":{"a":1,"a":[2]}}`,
		`{"named":{"a":"1","a":"2","\u0061":"3"}}`,
		`{"bytes":"AAAA","bytes":"AA=="}`,
		`{"raw":{"a":1},"raw":null}`,
		`{"next":{"next":{"i8":1}},"next":{"i8":2}}`,
	} {
		tr.check(t, []byte(raw))
	}
}
