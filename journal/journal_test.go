package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/object"
)

func TestWhatIsLoadedAfterAStopIsTheLastState(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for seed := range uint64(soak.Rounds(10)) {
			synctest.Test(t, func(t *testing.T) {
				j := open(t, t.TempDir(), Options{})
				m := newMirror(seed, j.Log("things"), packed)
				m.list(10)
				stop := m.run()
				for range 50 {
					m.churn()
					if m.rand.IntN(10) == 0 {
						m.list(m.rand.IntN(12))
					}
					testkit.Advance(time.Duration(m.rand.IntN(300)) * time.Millisecond)
				}
				stop()
				got, st, err := load(j.Log("things"), want)
				if err != nil {
					t.Fatal(err)
				}
				if now := m.now(); !got.equal(now) {
					t.Fatalf("seed %d: loaded\n%v\nthe mirror had\n%v", seed, got, now)
				}
				if st.Unreadable != 0 || time.Since(st.At) > time.Minute {
					t.Errorf("state %+v at %v", st, time.Now())
				}
			})
		}
	}
}

// TestJ01_KilledAtAnyByte ends all writing at a random byte, in whatever file that is, and then damages the end of the
// last file, as a machine that fails does with what was not synced.
func TestJ01_KilledAtAnyByte(t *testing.T) {
	loaded, lists := 0, 0
	for seed := range uint64(soak.Rounds(80)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			dir := t.TempDir()
			d := &faulty{left: r.IntN(20_000)}
			j := open(t, dir, Options{disk: d, MaxBytes: 12_000 + int64(r.IntN(30_000))})
			m := newMirror(seed, j.Log("things"), seed%2 == 0)
			m.list(10)
			stop := m.run()
			complete := 0 // states that were synced to the end
			for range 200 {
				m.churn()
				if r.IntN(50) == 0 {
					m.list(r.IntN(12))
				}
				if r.IntN(20) == 0 { // a segment ends before it has grown
					stop()
					stop = m.run()
				}
				testkit.Advance(time.Duration(r.IntN(200)) * time.Millisecond)
				if d.failure() != nil {
					break
				}
				complete = int(m.rec.Status().States)
			}
			d.set(func(d *faulty) { d.err = errKilled })
			stop()
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, Options{})
			got, _, err := load(again.Log("things"), want)
			switch {
			case err == nil:
				loaded++
				if _, ok := m.age(got); !ok {
					t.Fatalf("seed %d: the mirror never had %v", seed, got)
				}
			case complete > 0 && !errors.Is(err, ErrNone):
				t.Fatalf("seed %d: %d states were written, but: %v", seed, complete, err)
			default: // none was written, or its limit was too low for a second one
				lists++
			}
			again.Close()
		})
	}
	if loaded < lists {
		t.Errorf("a state was loaded %d times and %d times not; the test shows little", loaded, lists)
	}
}

func TestJ01_AKilledProcessLosesOnlyWhatItHadNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{left: -1}
		j := open(t, t.TempDir(), Options{disk: d})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		m.churn()
		synctest.Wait() // all that is queued is written
		before := m.now()
		d.set(func(d *faulty) { d.err = errKilled })
		m.churn()
		synctest.Wait()
		got, _, err := load(j.Log("things"), want)
		if err != nil || !got.equal(before) {
			t.Errorf("loaded %v, %v; want what was written, %v", got, err, before)
		}
		stop()
	})
}

func TestJ01_DamagedFilesYieldAStateThatTheMirrorHadOrNone(t *testing.T) {
	var whole []byte
	var m *mirror
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir, Options{})
		m = newMirror(3, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		for range 20 {
			m.churn()
			synctest.Wait()
		}
		stop()
		j.Close()
	})
	path := segmentsOf(t, dir)[0]
	whole = read(t, path)
	j := open(t, dir, Options{})
	other := bytes.Clone(whole)
	r := rand.New(rand.NewPCG(1, 1))
	states := 0
	for round := range soak.Rounds(400) {
		data := bytes.Clone(whole)
		at := r.IntN(len(data))
		switch round % 5 {
		case 0:
			data = data[:at]
		case 1:
			data[at] ^= 1 << r.IntN(8)
		case 2: // a part is missing
			data = append(data[:at], data[min(len(data), at+r.IntN(2000)):]...)
		case 3: // a part is there twice
			to := min(len(data), at+r.IntN(2000))
			data = append(bytes.Clone(data[:to]), data[at:]...)
		case 4: // the rest is of zeros
			clear(data[at:])
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := load(j.Log("things"), want)
		if err != nil {
			continue
		}
		states++
		if _, ok := m.age(got); !ok {
			t.Fatalf("round %d: the mirror never had %v", round, got)
		}
	}
	if states == 0 || !bytes.Equal(other, whole) {
		t.Error("no damaged file had a state")
	}
}

func TestJ01_AnOlderSegmentIsUsedIfTheLastOneHasNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, Options{})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		stop()
		first := m.now()
		m.churn()
		stop = m.run()
		eventually(t, "writing", writes(m))
		stop()
		paths := segmentsOf(t, dir)
		if len(paths) != 2 {
			t.Fatalf("segments %v", paths)
		}
		if err := os.Truncate(paths[1], 500); err != nil {
			t.Fatal(err)
		}
		if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(first) {
			t.Errorf("loaded %v, %v; want %v", got, err, first)
		}
	})
}

func TestJ02_OnlyTheSameIsLoaded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir, Options{})
		m := newMirror(1, j.Log("things"), true)
		m.list(3)
		stop := m.run()
		eventually(t, "writing", writes(m))
		stop()
		j.Close()
	})
	j := open(t, dir, Options{})
	for what, change := range map[string]func(*Identity){
		"another cluster":       func(id *Identity) { id.Server = "b" },
		"resource":              func(id *Identity) { id.Resource = "v2/configmaps" },
		"set of namespaces":     func(id *Identity) { id.Namespaces = []string{"shop"} },
		"label selector":        func(id *Identity) { id.Labels = "app=web" },
		"field selector":        func(id *Identity) { id.Fields = "metadata.name=a" },
		"form":                  func(id *Identity) { id.Form = "compact" },
		"set of dropped fields": func(id *Identity) { id.Dropped = nil },
		"transform":             func(id *Identity) { id.Transform = "trim v2" },
	} {
		id := want
		change(&id)
		var e *MismatchError
		if _, _, err := load(j.Log("things"), id); !errors.As(err, &e) || !strings.Contains(err.Error(), what) {
			t.Errorf("with another %s: %v", what, err)
		}
	}
	path := segmentsOf(t, dir)[0]
	whole := read(t, path)
	for text, data := range map[string][]byte{
		"format 2":                bytes.Replace(whole, []byte("journal 1\n"), []byte("journal 2\n"), 1),
		"format 0":                bytes.Replace(whole, []byte("journal 1\n"), []byte("journal 0\n"), 1),
		"no segment has a whole ": []byte("\x7fELF of another program, which is long enough for a header"),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := load(j.Log("things"), want); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	if _, _, err := load(j.Log("others"), want); !errors.Is(err, ErrNone) {
		t.Errorf("of a mirror without a log: %v", err)
	}
}

func TestALimitDeletesOldSegmentsAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const limit = 20_000
		j := open(t, dir, Options{MaxBytes: limit})
		m := newMirror(1, j.Log("things"), true)
		for range 30 {
			m.list(10)
			stop := m.run()
			eventually(t, "writing", writes(m))
			stop()
			size := 0
			for _, path := range segmentsOf(t, dir) {
				data := read(t, path)
				size += len(data)
				if !bytes.HasPrefix(data, []byte(magic)) {
					t.Errorf("%s was cut", path)
				}
			}
			if size > limit {
				t.Fatalf("the folder has %d bytes; the limit is %d", size, limit)
			}
		}
		if n := len(segmentsOf(t, dir)); n < 2 {
			t.Errorf("%d segments are left", n)
		}
	})
}

func TestAStateThatDoesNotFitIsNotWrittenAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, Options{MaxBytes: 4000})
		m := newMirror(1, j.Log("things"), false)
		m.list(100)
		stop := m.run()
		eventually(t, "refused", func() bool { return errors.Is(m.rec.Status().Cause, ErrFull) })
		m.list(1)
		eventually(t, "writing", writes(m))
		stop()
		if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(m.now()) {
			t.Errorf("loaded %v, %v", got, err)
		}
	})
}

func TestSegmentsThatAreTooOldAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, Options{MaxAge: time.Hour})
		gone := newMirror(1, j.Log("of a mirror that is not declared any more"), true)
		gone.list(3)
		stop := gone.run()
		eventually(t, "writing", writes(gone))
		stop()
		j.Close()
		old := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(segmentsOf(t, dir)[0], old, old); err != nil {
			t.Fatal(err)
		}
		j = open(t, dir, Options{MaxAge: time.Hour})
		m := newMirror(2, j.Log("things"), true)
		m.list(3)
		stop = m.run()
		eventually(t, "writing", writes(m))
		if paths := segmentsOf(t, dir); len(paths) != 1 || !strings.Contains(paths[0], "things") {
			t.Errorf("segments %v", paths)
		}
		before := m.rec.Status().States
		testkit.Advance(20 * time.Minute)
		if now := m.rec.Status().States; now != before+1 {
			t.Errorf("%d states were written; a quarter of the age should begin another", now-before)
		}
		stop()
		if folders, err := filepath.Glob(filepath.Join(dir, "*-*")); err != nil || len(folders) != 1 {
			t.Errorf("folders %v, %v", folders, err)
		}
	})
}

func TestALongSegmentIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, t.TempDir(), Options{})
		m := newMirror(1, j.Log("things"), false)
		m.list(2)
		stop := m.run()
		eventually(t, "writing", writes(m))
		for m.rec.Status().States == 1 {
			m.list(1000)
			testkit.Advance(time.Second)
		}
		stop()
		if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(m.now()) {
			t.Errorf("not the last state: %v", err)
		}
	})
}

func TestNamesOfLogsDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"pods", "Pods", "pods in a", "pods_in_a", "../pods", "", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		folder := folderOf(name)
		if was, ok := seen[folder]; ok || len(folder) > 100 || strings.ContainsAny(folder, "/ ") || !filepath.IsLocal(folder) {
			t.Errorf("%q is %q, as %q", name, folder, was)
		}
		seen[folder] = name
	}
}

func TestNewNamesTheInvalidOption(t *testing.T) {
	for _, opts := range []Options{{MaxBytes: -1}, {MaxAge: -1}, {SyncEvery: -1}, {Pending: -1}} {
		if _, err := New("x", opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
	if _, err := New("", Options{}); err == nil {
		t.Error("no folder is accepted")
	}
}

// FuzzSegment reads what is not a segment.
func FuzzSegment(f *testing.F) {
	var m moment
	m.marks = []Mark{{Version: "7"}}
	whole := func(build func(w *writer)) []byte {
		var b buffer
		w, err := newWriter(&b, want, func(int) error { return nil })
		if err != nil {
			f.Fatal(err)
		}
		build(w)
		if err := w.flush(); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(whole(func(w *writer) {}))
	f.Add(whole(func(w *writer) { _ = w.complete(m) }))
	f.Add([]byte("tarn journal 1\n"))
	f.Add([]byte("tarn journal 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := newReader(bytes.NewReader(data))
		if err == nil {
			_, _ = r.read(func(*Entry) {})
		}
		// With right checksums the records themselves are read.
		framed := whole(func(w *writer) {
			for part := range bytes.SplitSeq(data, []byte("|")) {
				if w.record = append(w.record[:0], part...); len(part) > 0 {
					_ = w.end()
				}
			}
		})
		if r, err = newReader(bytes.NewReader(framed)); err != nil {
			t.Fatal(err)
		}
		if st, err := r.read(func(e *Entry) {
			if e.Key.Name == "" || e.Kind == object.Synced {
				t.Errorf("entry %+v", e)
			}
		}); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%v of %s", err, fmt.Sprint(st))
		}
	})
}

// buffer is a file in memory.
type buffer struct{ bytes.Buffer }

func (*buffer) Sync() error  { return nil }
func (*buffer) Close() error { return nil }
