package patch

import (
	"testing"
)

// The three cases before the errors differ from RFC 6902, on the real server too.
func TestPatchesAreThoseOfTheRealServer(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/-","value":3}]`, `{"a":[1,2,3]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/0","value":0}]`, `{"a":[0,1,2]}`},
		{`{"a":[1,2]}`, `[{"op":"replace","path":"/a/1","value":{"b":12345678901234567890}}]`, `{"a":[1,{"b":12345678901234567890}]}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a/b","path":"/c"}]`, `{"a":{},"c":1}`},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"add","path":"/c/b","value":2}]`, `{"a":{"b":1},"c":{"b":2}}`},
		{`{"~/":1}`, `[{"op":"remove","path":"/~0~1"}]`, `{}`},
		{`{}`, `[{"op":"test","path":"/a","value":null}]`, `{}`},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":1}]`, `{"a":1,"b":1}`},
		{`{"a":1}`, `[{"op":"add","path":"/b"}]`, `{"a":1,"b":null}`},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/-1"}]`, `{"a":[1]}`},
		{`{"a":1}`, `[{"op":"add","path":"","value":{}}]`, ``},
		{`{"a":1}`, `[{"op":"remove","path":"/b"}]`, ``},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/2","value":1}]`, ``},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/01"}]`, ``},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/"}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, ``},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"b","value":1}]`, ``},
		{`{"a":1}`, `[{"op":"explode","path":"/a"}]`, ``},
	} {
		got, _, err := Apply("application/json-patch+json", []byte(c[0]), []byte(c[1]), nil)
		if (err != nil) != (c[2] == "") || err == nil && string(got) != c[2] {
			t.Errorf("%s with %s: %s %v", c[0], c[1], got, err)
		}
	}
	merged, _, err := Apply("application/merge-patch+json", []byte(`{"a":{"b":1,"c":[1]},"d":1}`), []byte(`{"a":{"b":null,"c":[2],"e":{"f":null}}}`), nil)
	if want := `{"a":{"c":[2],"e":{}},"d":1}`; err != nil || string(merged) != want {
		t.Errorf("got %s %v, want %s", merged, err, want)
	}
}
