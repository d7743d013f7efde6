package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/object"
)

var (
	pods    = &Recorded{Identity: Identity{Server: "a", Resource: "v1/pods", Form: "json"}, Kind: "Pod", Namespaced: true, Names: []string{"pod", "po"}}
	deploys = &Recorded{Identity: Identity{Server: "a", Resource: "apps/v1/deployments", Form: "json"}, Kind: "Deployment", Namespaced: true}
)

// line is an event as text.
func line(ev *Event) string {
	text := ev.At.UTC().Format("15:04:05.000") + " "
	switch {
	case ev.Activity != nil:
		return fmt.Sprintf("%s%+v", text, *ev.Activity)
	case ev.Mirror != nil:
		text += fmt.Sprintf("%+v ", *ev.Mirror)
	}
	if ev.State {
		text += "state "
	}
	return text + fmt.Sprintf("%v %s %s %s %q", ev.Kind, ev.Key, ev.UID, ev.Version, ev.Data)
}

// linesOf reads a file; end is the error that it ends with.
func linesOf(path string) (lines []string, end error) {
	for ev, err := range Events(path) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, line(ev))
	}
	return lines, nil
}

// randomRecording writes a recording and returns what it has, as text, except for the times of states.
func randomRecording(t testing.TB, path string, seed uint64) (want []string) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	rec := testkit.Must(NewRecording(path))
	at := time.Unix(1_760_000_000, 0)
	version := 0
	entry := func(kind object.Kind) Entry {
		version++
		e := Entry{Kind: kind, Key: object.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", random.IntN(9))}, UID: "u", Version: object.Version(fmt.Sprint(version))}
		if !e.removes() {
			e.Data = fmt.Appendf(nil, `{"metadata":{"annotations":{"about":"what many of them have in common, which is much of each"}},"count":%d}`, random.IntN(1000))
		}
		return e
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		at = at.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
		mirror := []*Recorded{pods, deploys}[random.IntN(2)]
		var entries []Entry
		switch n := random.IntN(8); n {
		case 0, 1:
			for range random.IntN(5) {
				entries = append(entries, entry(object.Added))
			}
			check(rec.Objects(mirror, entries))
			if n == 0 {
				check(rec.Complete(mirror, at))
			}
		case 2:
			a := Activity{At: at, Took: time.Second, Controller: "web", Verb: "reconcile", Key: object.Key{Namespace: "shop", Name: "web"}, Cause: "update of pods shop/web-1", Outcome: "conflict"}
			check(rec.Did(a))
			want = append(want, line(&Event{At: at, Activity: &a}))
		default:
			for range random.IntN(4) {
				entries = append(entries, entry([]object.Kind{object.Added, object.Updated, object.Deleted, object.Left}[random.IntN(4)]))
			}
			check(rec.Changes(mirror, at, entries))
			for _, e := range entries {
				want = append(want, line(&Event{At: at, Mirror: mirror, Entry: e}))
			}
		}
	}
	check(rec.Close())
	return want
}

// changesOf leaves out the states, whose objects have the time at which the file began.
func changesOf(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return bytes.Contains([]byte(l), []byte(" state ")) })
}

func TestARecordingHasWhatWasWrittenInOrder(t *testing.T) {
	for seed := range uint64(30) {
		path := filepath.Join(t.TempDir(), "incident.tarn")
		want := randomRecording(t, path, seed)
		got, err := linesOf(path)
		if err != nil || !slices.Equal(changesOf(got), want) {
			t.Fatalf("seed %d: %v, got\n%q\nwant\n%q", seed, err, changesOf(got), want)
		}
		if info := testkit.Must(os.Stat(path)); info.Mode().Perm() != 0o600 {
			t.Errorf("J06: mode %v", info.Mode())
		}
	}
}

func TestAStateOfARecordingEndsWithItsTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "incident.tarn")
	rec := testkit.Must(NewRecording(path))
	web := Entry{Kind: object.Added, Key: object.Key{Namespace: "shop", Name: "web"}, UID: "1", Version: "5", Data: []byte("{}")}
	at := time.Unix(1_760_000_000, 0)
	for _, err := range []error{rec.Objects(pods, []Entry{web}), rec.Complete(deploys, at), rec.Objects(pods, []Entry{web}), rec.Complete(pods, at.Add(time.Second)), rec.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for ev, err := range Events(path) {
		if err != nil || !ev.State {
			t.Fatal(err, ev)
		}
		got = append(got, fmt.Sprint(ev.Mirror.Kind, ev.Kind, ev.Key.Name, ev.At.Equal(at), ev.At.Sub(at) == time.Second))
	}
	want := []string{"PodAddedwebfalse false", "DeploymentSyncedtrue false", "PodAddedwebfalse false", "PodSyncedfalse true"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if err := rec.Did(Activity{}); err == nil || rec.Close() == nil {
		t.Error("a closed recording accepts more")
	}
	if _, err := NewRecording(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("it replaces a file: %v", err)
	}
}

// Whatever a file lost or what was changed in it, what is read is a beginning of what was written.
func TestADamagedRecordingYieldsItsBeginning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "incident.tarn")
	randomRecording(t, path, 3)
	whole := testkit.Must(linesOf(path))
	data := read(t, path)
	check := func(what string, damaged []byte) {
		t.Helper()
		var got []string
		r, err := newReader(bytes.NewReader(damaged))
		if err == nil {
			r.events(nil, func(ev *Event, failed error) bool {
				if err = failed; err == nil {
					got = append(got, line(ev))
				}
				return err == nil
			})
		}
		var format *FormatError
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.As(err, &format) {
			t.Fatalf("%s: %v", what, err)
		}
		if err != nil && len(got) > 0 || len(got) > len(whole) || !slices.Equal(got, whole[:len(got)]) {
			t.Fatalf("%s: it has what was not written: %v %q", what, err, got)
		}
	}
	for n := 0; n < len(data); n += 3 {
		check(fmt.Sprint("truncated at ", n), data[:n])
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		flipped, at := bytes.Clone(data), random.IntN(len(data))
		flipped[at] ^= 1 << random.IntN(8)
		check(fmt.Sprint("flipped at ", at), flipped)
	}
	check("foreign", []byte("PK\x03\x04 something else that is long enough to have a header"))
	check("empty", nil)
	check("newer", append([]byte("tarn journal 2\n"), data...))
}

// What is read of a journal's folder is what its segments have, also while the process that owns it writes.
func TestAFolderIsReadMirrorByMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, Options{MaxBytes: 64 << 20})
		m := newMirror(1, j.Log("configmaps"), true)
		m.list(5)
		stop := m.run()
		eventually(t, "writing", writes(m))
		for range 20 {
			m.churn()
		}
		stop()
		stop = m.run() // another segment
		eventually(t, "writing again", writes(m))
		m.churn()
		defer stop()
		synctest.Wait()
		has, changes, states := map[object.Key]string{}, 0, 0
		var mirror *Recorded
		for ev, err := range Events(dir) {
			if err != nil {
				t.Fatal(err)
			}
			if mirror == nil {
				mirror = ev.Mirror
			}
			if ev.Mirror != mirror || ev.Mirror.Resource != want.Resource {
				t.Fatalf("another mirror: %+v", ev.Mirror)
			}
			switch {
			case ev.Kind == object.Synced:
				states++
			case ev.removes():
				delete(has, ev.Key)
			default:
				has[ev.Key] = text(testkit.Must(decode(ev.Data)))
			}
			if !ev.State {
				changes++
			}
		}
		now := m.now()
		if len(has) != len(now.objects) || states != 2 || changes == 0 {
			t.Fatalf("got %v of %d states and %d changes, want %v", has, states, changes, now.objects)
		}
		for key, is := range now.objects {
			if has[key] != is {
				t.Errorf("%s is %s, want %s", key, has[key], is)
			}
		}
	})
}

// FuzzEvents proves that no file makes the reader panic, hang or yield what is not an event.
func FuzzEvents(f *testing.F) {
	path := filepath.Join(f.TempDir(), "incident.tarn")
	randomRecording(f, path, 1)
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte("M\x01{\"resource\":\"v1/pods\"}|O\x01\x00\x01a\x00\x00\x00\x00|S\x00\x00\x00|B\x00\x00\x00\x01\x03\x00\x01a\x00\x00|A{}|M\x01|M\x03"))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(r *reader, of *Recorded) {
			r.events(of, func(ev *Event, err error) bool {
				if err == nil && ev.Activity == nil && (ev.Mirror == nil || ev.Kind != object.Synced && ev.Key.Name == "") {
					t.Fatalf("no event: %+v", ev)
				}
				return err == nil && ev.Version != "5"
			})
		}
		if r, err := newReader(bytes.NewReader(data)); err == nil {
			check(r, nil)
		}
		// With right checksums the records themselves are read.
		var framed buffer
		w := testkit.Must(newWriter(&framed, Identity{}, func(int) error { return nil }))
		for part := range bytes.SplitSeq(data, []byte("|")) {
			if w.record = append(w.record[:0], part...); len(part) > 0 {
				_ = w.end()
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		for _, of := range []*Recorded{nil, pods} {
			check(testkit.Must(newReader(bytes.NewReader(framed.Bytes()))), of)
		}
	})
}
