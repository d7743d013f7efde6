package jsondec

import (
	"bytes"
	"errors"
	"math/rand"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// checkPeek holds Peek and the Peek of a Scanner against both decoders: where they give an
// identity and those accept the object, it is theirs.
func checkPeek(tb testing.TB, raw []byte) {
	tb.Helper()
	given := bytes.Clone(raw)
	id, err := Peek(given)
	if !bytes.Equal(given, raw) {
		tb.Fatal("Peek wrote to its input")
	}
	typed := &metav1.PartialObjectMetadata{}
	typedErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, typed)
	if err != nil {
		if !errors.Is(err, ErrUnclear) && !errors.Is(err, object.ErrCorrupt) {
			tb.Fatalf("%v\n%s", err, raw)
		}
		if typedErr == nil && errors.Is(err, object.ErrCorrupt) && bytes.TrimSpace(raw)[0] == '{' {
			tb.Fatalf("Peek: %v, but it is decoded\n%s", err, raw)
		}
	} else {
		checkIdentity(tb, raw, id)
	}
}

func checkIdentity(tb testing.TB, raw []byte, id Identity) {
	tb.Helper()
	typed := &metav1.PartialObjectMetadata{}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, typed) == nil {
		want := [6]string{typed.Namespace, typed.Name, string(typed.UID), typed.ResourceVersion, typed.Kind, typed.APIVersion}
		if got := texts(id); got != want {
			tb.Fatalf("got %q, want %q of the typed object\n%s", got, want, raw)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &u.Object); err == nil {
		want := [6]string{u.GetNamespace(), u.GetName(), string(u.GetUID()), u.GetResourceVersion(), u.GetKind(), u.GetAPIVersion()}
		if got := texts(id); got != want {
			tb.Fatalf("got %q, want %q of the unstructured object\n%s", got, want, raw)
		}
	}
}

func texts(id Identity) [6]string {
	return [6]string{string(id.Namespace), string(id.Name), string(id.UID), string(id.Version), string(id.Kind), string(id.APIVersion)}
}

func TestPeekGivesWhatDecodingGives(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	docs := podDocs(t)
	for i := range soak.Rounds(100) {
		raw := docs.next()
		if i%2 == 0 {
			raw = []byte(certificate)
		}
		checkPeek(t, raw)
		checkPeek(t, damage(r, raw))
		var b strings.Builder
		tree(r, &b, 4)
		checkPeek(t, []byte(b.String()))
		checkPeek(t, []byte(`{"metadata":`+b.String()+`}`))
	}
	for _, literal := range literals {
		for _, around := range []string{`%s`, `{"metadata":%s}`, `{"metadata":{"name":%s}}`, `{"kind":%s,"metadata":{"uid":"u"}}`, `{"metadata":{},"x":%s}`} {
			checkPeek(t, []byte(strings.Replace(around, "%s", literal, 1)))
		}
	}
}

func TestPeekKnowsWhenItCannotTell(t *testing.T) {
	for raw, want := range map[string]error{
		`{"metadata":{"name":"a"},"metadata":{"uid":"u"}}`: ErrUnclear,
		`{"metadata":{"name":"a","name":null}}`:            ErrUnclear,
		`{"metadata":{"name":"a","na\u006de":"b"}}`:        ErrUnclear,
		`{"kind":"a","kind":"b"}`:                          ErrUnclear,
		`{"metadata":{"name":5}}`:                          ErrUnclear,
		`{"metadata":"x"}`:                                 ErrUnclear,
		`{"metadata":{"Name":"a","NAME":"b","name":"c"}}`:  nil,
		`{"metadata":null}`:                                nil,
		` { } `:                                            nil,
		`{}x`:                                              object.ErrCorrupt,
		`{"metadata":{"name":"a"}`:                         object.ErrCorrupt,
		`{"a" 1}`:                                          object.ErrCorrupt,
		`{,}`:                                              object.ErrCorrupt,
		`{"a":1,}`:                                         object.ErrCorrupt,
		`{"a":1"b":2}`:                                     object.ErrCorrupt,
		`[]`:                                               object.ErrCorrupt,
		``:                                                 object.ErrCorrupt,
	} {
		if _, err := Peek([]byte(raw)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", raw, err, want)
		}
	}
}

func TestPeekDoesNotAllocate(t *testing.T) {
	raw := podDocs(t).next()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Peek(raw); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSplitEvent(t *testing.T) {
	for _, c := range []struct {
		frame, kind, object string
		corrupt             bool
	}{
		{frame: `{"type":"ADDED","object":{"kind":"Pod","x":["}"]}}`, kind: "ADDED", object: `{"kind":"Pod","x":["}"]}`},
		{frame: ` { "object" : {} , "type" : "A\u0042" } `, kind: "AB", object: "{}"},
		{frame: `{"type":"BOOKMARK"}`, kind: "BOOKMARK"},
		{frame: `{}`},
		{frame: `{"type":"A","type":"B"}`, corrupt: true},
		{frame: `{"type":5}`, corrupt: true},
		{frame: `{"object":{},"object":{}}`, corrupt: true},
		{frame: `{"type":"ADDED","object":{}`, corrupt: true},
		{frame: `{"type":"ADDED"}{}`, corrupt: true},
		{frame: `{"type":"ADDED","object":{},"other":{"a":[1,null,"\u00e9"]}}`, kind: "ADDED", object: "{}"},
		{frame: `{"type":"ADDED","object":{},"other":{"a":tru}}`, corrupt: true},
		{frame: `{"type":"ADDED","object":{},"other":01}`, corrupt: true},
		{frame: `{"other":[1,],"type":"ADDED","object":{}}`, corrupt: true},
		{frame: `{"type":"ADDED","object":{},"other":"\x"}`, corrupt: true},
		{frame: `5`, corrupt: true},
	} {
		kind, obj, err := SplitEvent([]byte(c.frame))
		if errors.Is(err, object.ErrCorrupt) != c.corrupt || string(kind) != c.kind || string(obj) != c.object {
			t.Errorf("%s: %q, %q, %v", c.frame, kind, obj, err)
		}
	}
}
