package jsondec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// pieces gives its text in pieces of random size, some with the end of the stream.
type pieces struct {
	text []byte
	r    *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+p.r.Intn(40))], p.text)
	p.text = p.text[n:]
	if len(p.text) == 0 && p.r.Intn(2) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// split is what a scanner gave.
type split struct {
	kind, apiVersion, metadata string
	items                      []string
	err                        error
}

func (s split) String() string {
	return fmt.Sprintf("%s %s %s %q: %v", s.kind, s.apiVersion, s.metadata, s.items, s.err)
}

func scanAll(r io.Reader, limit int) (out split) {
	sc := NewScanner(r, limit)
	for {
		p, err := sc.Next()
		if err != nil {
			if _, again := sc.Next(); again != err {
				err = fmt.Errorf("%w, then %w", err, again)
			}
			out.err = err
			return out
		}
		switch p.Member {
		case Kind:
			out.kind = string(p.Raw)
		case APIVersion:
			out.apiVersion = string(p.Raw)
		case Metadata:
			out.metadata = string(p.Raw)
		case Item:
			out.items = append(out.items, string(p.Raw))
		}
	}
}

// checkScanner holds a scanner, fed in random pieces, against encoding/json.
func checkScanner(tb testing.TB, raw []byte, seed int64) {
	tb.Helper()
	got := scanAll(&pieces{bytes.Clone(raw), rand.New(rand.NewSource(seed))}, 0)
	if whole := scanAll(bytes.NewReader(raw), 0); fmt.Sprint(whole) != fmt.Sprint(got) {
		tb.Fatalf("in pieces %v\nas a whole %v\n%s", got, whole, raw)
	}
	var want struct {
		Kind       json.RawMessage `json:"kind"`
		APIVersion json.RawMessage `json:"apiVersion"`
		Metadata   json.RawMessage `json:"metadata"`
		Items      json.RawMessage `json:"items"`
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &members) != nil || members == nil {
		// The scanner may accept a list whose items are broken in themselves, but
		// none whose end is missing.
		if got.err == io.EOF && !bytes.HasSuffix(bytes.TrimRight(raw, " \t\r\n"), []byte("}")) {
			tb.Fatalf("no end, and accepted\n%s", raw)
		}
		if got.err != io.EOF && !errors.Is(got.err, object.ErrCorrupt) {
			tb.Fatalf("%v", got.err)
		}
		return
	}
	want.Kind, want.APIVersion, want.Metadata, want.Items = members["kind"], members["apiVersion"], members["metadata"], members["items"]
	if got.err != io.EOF {
		if !strings.Contains(got.err.Error(), "occurs twice") {
			tb.Fatalf("%v\n%s", got.err, raw)
		}
		return
	}
	var items []json.RawMessage
	if json.Unmarshal(want.Items, &items) != nil {
		items = nil
	}
	if got.kind != string(want.Kind) || got.apiVersion != string(want.APIVersion) || got.metadata != string(want.Metadata) || len(got.items) != len(items) {
		tb.Fatalf("got %+v, want %+v\n%s", got, want, raw)
	}
	for i := range items {
		if got.items[i] != string(items[i]) {
			tb.Fatalf("item %d: got %s, want %s", i, got.items[i], items[i])
		}
	}
}

func TestL08_MetadataBeforeOrAfterItems(t *testing.T) {
	const items = `[ {"metadata":{"name":"a}"}} ,{"x":[1,"\"]"]},null,"s",5,[]]`
	for _, raw := range []string{
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":` + items + "}\n",
		`{"apiVersion":"v1","items":` + items + `,"kind":"PodList","metadata":{"resourceVersion":"7"}}`,
	} {
		got := scanAll(strings.NewReader(raw), 0)
		want := split{`"PodList"`, `"v1"`, `{"resourceVersion":"7"}`, []string{`{"metadata":{"name":"a}"}}`, `{"x":[1,"\"]"]}`, "null", `"s"`, "5", "[]"}, io.EOF}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	}
}

func TestMembersThatAreNotReturnedAreValidJSON(t *testing.T) {
	for value, valid := range map[string]bool{
		`{"a":[1,null,"\u00e9",true,-0.5e3]}`: true,
		`1`:                                   true,
		`"` + "\xff" + `"`:                    true, // as encoding/json has it
		`{"a":tru}`:                           false,
		`nul`:                                 false,
		`01`:                                  false,
		`[1,]`:                                false,
		`{"a" 1}`:                             false,
		`{a:1}`:                               false,
		`"\x"`:                                false,
		"\"a\nb\"":                            false,
		`[1 2]`:                               false,
		`{"a":{"b":[{"c":}]}}`:                false,
	} {
		for _, raw := range []string{
			`{"kind":"L","other":` + value + `,"items":[{}]}`,
			`{"kind":"L","items":[{}],"other":` + value + `}`,
		} {
			if err := scanAll(strings.NewReader(raw), 0).err; (err == io.EOF) != valid || !valid && !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("%s: %v", raw, err)
			}
			if json.Valid([]byte(raw)) != valid {
				t.Errorf("encoding/json disagrees about %s", raw)
			}
		}
	}
}

func TestListsAreSplitAsEncodingJSONSplitsThem(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for range soak.Rounds(200) {
		var b strings.Builder
		b.WriteString(`{"kind":"L"`)
		for range r.Intn(4) {
			b.WriteString([]string{`,"items":[`, `,"items":`, `,"metadata":`, `,"other":`, `, "apiVersion" :`}[r.Intn(5)])
			open := strings.HasSuffix(b.String(), "[")
			tree(r, &b, 3)
			for open && r.Intn(3) > 0 {
				b.WriteByte(',')
				tree(r, &b, 3)
			}
			if open {
				b.WriteByte(']')
			}
		}
		b.WriteString("}")
		raw := []byte(b.String())
		checkScanner(t, raw, r.Int63())
		checkScanner(t, damage(r, raw), r.Int63())
	}
}

func TestL10_AListCutOffIsNeverComplete(t *testing.T) {
	raw := `{"kind":"PodList","metadata":{"a":"\\"},"items":[{"a":"b\"}"},{"c":[1,2]}],"n":1}`
	for i := range raw {
		got := scanAll(strings.NewReader(raw[:i]), 0)
		if !errors.Is(got.err, object.ErrCorrupt) || !errors.Is(got.err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", i, got.err)
		}
	}
	lost := errors.New("connection lost")
	if got := scanAll(io.MultiReader(strings.NewReader(raw), iotest.ErrReader(lost)), 0); !errors.Is(got.err, lost) {
		t.Errorf("an error after the list: %v", got.err)
	}
	if got := scanAll(io.MultiReader(strings.NewReader(raw), iotest.ErrReader(io.ErrUnexpectedEOF)), 0); !errors.Is(got.err, object.ErrCorrupt) {
		t.Errorf("a truncated body after the list: %v", got.err)
	}
	if got := scanAll(strings.NewReader(raw+"{"), 0); !errors.Is(got.err, object.ErrCorrupt) || errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("something after the list: %v", got.err)
	}
}

// repeated is a list of n items that is never in memory.
func repeated(n int, item string) io.Reader {
	return io.MultiReader(strings.NewReader(`{"other":[`+item+`],"items":[`), &endlessItems{item: item + ",", n: n}, strings.NewReader(item+`]}`))
}

type endlessItems struct {
	item string
	n    int
	rest string
}

func (e *endlessItems) Read(b []byte) (int, error) {
	if e.rest == "" {
		if e.n == 0 {
			return 0, io.EOF
		}
		e.n--
		e.rest = e.item
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestL09_AListIsNeverHeldWhole(t *testing.T) {
	soak.Measures(t)
	item := `{"metadata":{"name":"` + strings.Repeat("x", 2000) + `"}}`
	sc := NewScanner(repeated(20_000, item), 0) // 40 MB
	n := 0
	for {
		p, err := sc.Next()
		if err == io.EOF {
			break
		}
		if err != nil || string(p.Raw) != item {
			t.Fatal(err, p.Member)
		}
		if n++; cap(sc.buf) > 4*readSize {
			t.Fatalf("a buffer of %d bytes after %d items", cap(sc.buf), n)
		}
	}
	if n != 20_001 {
		t.Errorf("%d items", n)
	}
}

func TestOneLargeItemDoesNotKeepItsBuffer(t *testing.T) {
	item := `{"a":"` + strings.Repeat("x", 4*keepSize) + `"}`
	sc := NewScanner(io.MultiReader(strings.NewReader(`{"items":[`+item), &endlessItems{item: ",{}", n: 50_000}, strings.NewReader(`]}`)), 0)
	for {
		if _, err := sc.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if cap(sc.buf) > keepSize {
		t.Errorf("still %d bytes", cap(sc.buf))
	}
}

func TestAValueBeyondTheLimitIsRefused(t *testing.T) {
	for _, raw := range []string{`{"items":[{"a":"%s"}]}`, `{"metadata":{"a":"%s"}}`, `{"%s":1}`, `{"kind":"%s"}`, `{"other":["%s"]}`} {
		for _, n := range []int{100, 100_000} {
			got := scanAll(strings.NewReader(strings.Replace(raw, "%s", strings.Repeat("x", n), 1)), 99)
			if !errors.Is(got.err, object.ErrCorrupt) || errors.Is(got.err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", raw, got.err)
			}
		}
	}
}

func TestWhatIsNoListIsRefused(t *testing.T) {
	for _, raw := range []string{
		``, `[]`, `5`, `{]`, `{"items":[}`, `{"items":[{]}]}`, `{"items":[1 2]}`, `{"items":[,1]}`, `{"items":[1,]}`, `{"kind":"a",}`, `{"kind" "a"}`,
		`{kind:1}`, `{"kind":"a" "b":1}`, `{"kind":"a","kind":"b"}`, `{"items":[],"items":[]}`, `{"metadata":{},"metadata":{}}`, `{"a\x":1}`, `{"kind":}`, `{"kind":,}`,
	} {
		if got := scanAll(strings.NewReader(raw), 0); !errors.Is(got.err, object.ErrCorrupt) {
			t.Errorf("%s: %v", raw, got.err)
		}
	}
}
