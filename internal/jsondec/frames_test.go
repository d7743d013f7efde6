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

func framesOf(r io.Reader, limit int) (out []string, err error) {
	f := NewFrames(r, limit)
	for {
		frames, err := f.Next()
		if err != nil {
			return out, err
		}
		if len(frames) == 0 {
			return out, errors.New("no frames and no error")
		}
		for _, frame := range frames {
			out = append(out, string(frame))
		}
	}
}

// checkFrames holds the frames, fed in random pieces, against a json.Decoder.
func checkFrames(tb testing.TB, raw []byte, seed int64) {
	tb.Helper()
	got, err := framesOf(&pieces{bytes.Clone(raw), rand.New(rand.NewSource(seed))}, 0)
	if whole, wholeErr := framesOf(bytes.NewReader(raw), 0); fmt.Sprint(whole, wholeErr) != fmt.Sprint(got, err) {
		tb.Fatalf("in pieces %q, %v\nas a whole %q, %v", got, err, whole, wholeErr)
	}
	if err != io.EOF && !errors.Is(err, object.ErrCorrupt) {
		tb.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	for i := 0; ; i++ {
		var want json.RawMessage
		switch wantErr := d.Decode(&want); {
		case wantErr == io.EOF:
			if err != io.EOF || i != len(got) {
				tb.Fatalf("%d frames and %v, want %d and the end", len(got), err, i)
			}
			return
		case wantErr != nil || want[0] != '{':
			return // the rest need not be split alike
		case i >= len(got) || got[i] != string(want):
			tb.Fatalf("frame %d: got %q, want %s", i, got, want)
		}
	}
}

func TestFramesAreSplitAsAJSONDecoderSplitsThem(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for range soak.Rounds(150) {
		var b strings.Builder
		for range r.Intn(5) {
			b.WriteString(`{"type":"ADDED","object":`)
			tree(r, &b, 3)
			b.WriteString("}" + []string{"", "\n", " \r\n"}[r.Intn(3)])
		}
		raw := []byte(b.String())
		checkFrames(t, raw, r.Int63())
		if len(raw) > 0 {
			checkFrames(t, damage(r, raw), r.Int63())
		}
	}
}

// steps gives one of its texts at each read, and fails the test when it is asked for
// more than is there.
type steps struct {
	t     *testing.T
	texts []string
	reads int
}

func (s *steps) Read(b []byte) (int, error) {
	if s.reads == len(s.texts) {
		s.t.Fatal("Next waits although there are frames")
	}
	s.reads++
	return copy(b, s.texts[s.reads-1]), nil
}

func TestNextReturnsAllFramesReceivedAndWaitsForNoMore(t *testing.T) {
	src := &steps{t: t, texts: []string{`{"a":1}{"b":`, `2}`, "\n\n{\"c\":3}\n{}{}", `{"d"`, `:`, "4}\n"}}
	f := NewFrames(src, 0)
	for _, want := range []struct {
		frames string
		reads  int
	}{{`[{"a":1}]`, 1}, {`[{"b":2}]`, 2}, {`[{"c":3} {} {}]`, 3}, {`[{"d":4}]`, 6}} {
		got, err := f.Next()
		if err != nil || fmt.Sprintf("%s", got) != want.frames || src.reads != want.reads {
			t.Errorf("got %s, %v after %d reads; want %s after %d", got, err, src.reads, want.frames, want.reads)
		}
	}
}

func TestW20_BrokenStreamsAreErrorsAfterTheGoodFrames(t *testing.T) {
	lost := errors.New("connection lost")
	for _, c := range []struct {
		r         io.Reader
		limit     int
		frames    int
		want, not error
	}{
		{r: strings.NewReader(`{}{"a":`), frames: 1, want: io.ErrUnexpectedEOF},
		{r: strings.NewReader(`{}{"a":`), frames: 1, want: object.ErrCorrupt},
		{r: strings.NewReader(`{}5{}`), frames: 1, want: object.ErrCorrupt, not: io.ErrUnexpectedEOF},
		{r: strings.NewReader(`{}[]`), frames: 1, want: object.ErrCorrupt},
		{r: strings.NewReader(`{}{"a":[}}`), frames: 1, want: object.ErrCorrupt},
		{r: strings.NewReader(`{}{"a":"` + strings.Repeat("x", 100) + `"}`), limit: 100, frames: 1, want: object.ErrCorrupt, not: io.ErrUnexpectedEOF},
		{r: strings.NewReader(`{}{"a":"` + strings.Repeat("x", 100)), limit: 100, frames: 1, want: object.ErrCorrupt, not: io.ErrUnexpectedEOF},
		{r: strings.NewReader(strings.Repeat(`{"a":`, maxDepth+1)), want: object.ErrCorrupt},
		{r: io.MultiReader(strings.NewReader(`{}{}`), iotest.ErrReader(lost)), frames: 2, want: lost, not: object.ErrCorrupt},
		{r: io.MultiReader(strings.NewReader(`{}{}`), iotest.ErrReader(io.ErrUnexpectedEOF)), frames: 2, want: io.ErrUnexpectedEOF, not: object.ErrCorrupt},
		{r: io.MultiReader(strings.NewReader(`{}{"a":`), iotest.ErrReader(io.ErrUnexpectedEOF)), frames: 1, want: io.ErrUnexpectedEOF, not: object.ErrCorrupt},
		{r: strings.NewReader("{}\n{}\n"), frames: 2, want: io.EOF, not: object.ErrCorrupt},
		{r: strings.NewReader(" \n"), want: io.EOF},
		{r: nothing{}, want: io.ErrNoProgress},
	} {
		got, err := framesOf(c.r, c.limit)
		if len(got) != c.frames || !errors.Is(err, c.want) || c.not != nil && errors.Is(err, c.not) {
			t.Errorf("%q, %v; want %d frames, then %v and not %v", got, err, c.frames, c.want, c.not)
		}
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestFramesKeepNoLargeBuffer(t *testing.T) {
	large := `{"a":"` + strings.Repeat("x", 4*keepSize) + `"}`
	f := NewFrames(io.MultiReader(strings.NewReader(large), strings.NewReader(strings.Repeat("{}\n", 1000))), 0)
	n := 0
	for {
		frames, err := f.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(frames)
	}
	if n != 1001 || cap(f.buf) > keepSize {
		t.Errorf("%d frames, and a buffer of %d bytes", n, cap(f.buf))
	}
}

// space gives n bytes of white space.
type space struct{ n int }

func (s *space) Read(p []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	n := min(s.n, len(p))
	for i := range p[:n] {
		p[i] = " \t\r\n"[i%4]
	}
	s.n -= n
	return n, nil
}

func TestW20_SpaceBetweenFramesIsNotHeld(t *testing.T) {
	soak.Measures(t)
	const much = 8 << 20
	f := NewFrames(io.MultiReader(&space{much}, strings.NewReader("{}"), &space{much}, strings.NewReader(`{"a":1}`), &space{much}), 1<<10)
	var got []string
	for {
		frames, err := f.Next()
		if cap(f.buf) > keepSize {
			t.Fatalf("holds %d bytes after %q", cap(f.buf), got)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range frames {
			got = append(got, string(frame))
		}
	}
	if fmt.Sprint(got) != `[{} {"a":1}]` {
		t.Errorf("%q", got)
	}
}

func TestL09_SpaceInAListIsNotHeld(t *testing.T) {
	soak.Measures(t)
	const much = 4 << 20
	var parts []io.Reader
	for _, token := range []string{"{", `"kind"`, ":", `"L"`, ",", `"items"`, ":", "[", "{}", ",", "{}", "]", "}"} {
		parts = append(parts, &space{much}, strings.NewReader(token))
	}
	s := NewScanner(io.MultiReader(append(parts, &space{much})...), 1<<10)
	items := 0
	for {
		p, err := s.Next()
		if cap(s.buf) > keepSize {
			t.Fatalf("holds %d bytes", cap(s.buf))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Member == Item {
			items++
		}
	}
	if items != 2 {
		t.Errorf("%d items", items)
	}
}
