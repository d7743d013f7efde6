package journal

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/object"
)

func TestJ05_AFailingDiskIsVisibleAndTheJournalStartsAgain(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		synctest.Test(t, func(t *testing.T) {
			d := &faulty{left: -1}
			j := open(t, t.TempDir(), Options{disk: d})
			m := newMirror(1, j.Log("things"), true)
			m.list(10)
			stop := m.run()
			eventually(t, "writing", writes(m))
			for round := range 3 {
				d.set(func(d *faulty) { d.err = cause })
				m.churn()
				m.list(5)
				eventually(t, "stopped", func() bool { return !m.rec.Status().Writing })
				if st := m.rec.Status(); !errors.Is(st.Cause, cause) || st.Stops != uint64(round+1) {
					t.Errorf("status %+v, want %v", st, cause)
				}
				for range 5 {
					m.churn()
				}
				d.set(func(d *faulty) { d.err = nil })
				eventually(t, "writing again", writes(m))
				m.churn()
			}
			stop()
			if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(m.now()) {
				t.Errorf("loaded %v, %v; want %v", got, err, m.now())
			}
		})
	}
}

// TestJ05_ASlowDiskNeverDelaysTheMirror applies far more than may be pending while a write does not return. That
// apply returns is the proof: in the bubble it could not wait for the disk without a deadlock.
func TestJ05_ASlowDiskNeverDelaysTheMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{left: -1}
		j := open(t, t.TempDir(), Options{disk: d, Pending: 100})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		block := make(chan struct{})
		d.set(func(d *faulty) { d.block = block })
		for range 1000 {
			m.churn()
		}
		if st := m.rec.Status(); st.Writing || !errors.Is(st.Cause, errBehind) {
			t.Errorf("status %+v", st)
		}
		m.rec.mu.Lock()
		if m.rec.changes != 0 || m.rec.queue != nil {
			t.Errorf("%d changes are pending", m.rec.changes)
		}
		m.rec.mu.Unlock()
		d.set(func(d *faulty) { d.block = nil })
		close(block)
		eventually(t, "writing again", writes(m))
		stop()
		if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(m.now()) {
			t.Errorf("loaded %v, %v; want %v", got, err, m.now())
		}
	})
}

func TestJ05_AStateThatIsOvertakenIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		d := &faulty{left: -1, block: block}
		j := open(t, t.TempDir(), Options{disk: d, Pending: 10})
		m := newMirror(1, j.Log("things"), false)
		m.list(10)
		stop := m.run()
		synctest.Wait()
		for range 50 {
			m.churn()
		}
		d.set(func(d *faulty) { d.block = nil })
		close(block)
		eventually(t, "writing", writes(m))
		stop()
		if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(m.now()) {
			t.Errorf("loaded %v, %v; want %v", got, err, m.now())
		}
	})
}

func TestChangesAreSyncedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &counting{}
		j := open(t, t.TempDir(), Options{disk: d})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		before := d.count()
		for range 100 { // in ten seconds
			m.churn()
			testkit.Advance(100 * time.Millisecond)
		}
		testkit.Advance(time.Second)
		if n := d.count() - before; n < 9 || n > 12 {
			t.Errorf("%d syncs in 11 seconds", n)
		}
		quiet := d.count()
		testkit.Advance(time.Minute)
		if n := d.count(); n != quiet {
			t.Errorf("%d syncs without a change", n-quiet)
		}
		stop()
	})
}

// counting is a disk that counts syncs.
type counting struct {
	realDisk
	mu sync.Mutex
	n  int
}

func (d *counting) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

func (d *counting) Create(path string) (file, error) {
	f, err := d.realDisk.Create(path)
	return countingFile{d, f}, err
}

type countingFile struct {
	d *counting
	file
}

func (f countingFile) Sync() error {
	f.d.mu.Lock()
	f.d.n++
	f.d.mu.Unlock()
	return f.file.Sync()
}

func TestJ06_OnlyTheOwnerCanReadTheFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "journal")
		j := open(t, dir, Options{})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		stop()
		files := 0
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the mode %v", path, info.Mode())
			}
			files++
			return nil
		})
		if err != nil || files != 4 {
			t.Errorf("%d files and folders, %v", files, err)
		}
	})
}

func TestJ06_WhatMustNotBeWrittenIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, Options{})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		reason := errors.New("a field is masked")
		m.mu.Lock()
		m.refused = reason
		m.mu.Unlock()
		m.churn()
		eventually(t, "stopped", func() bool { return errors.Is(m.rec.Status().Cause, reason) })
		testkit.Advance(10 * time.Minute)
		if paths := segmentsOf(t, dir); len(paths) > 0 {
			t.Errorf("%v are left", paths)
		}
		stop()
	})
}

func TestJ06_ASecondJournalHasNoLock(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, Options{})
	second, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.acquire(); !errors.Is(err, ErrLocked) {
		t.Errorf("acquire: %v", err)
	}
	if err := j.acquire(); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := errors.Join(j.Close(), j.Close(), second.acquire(), second.Close()); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestJ06_ARecorderWaitsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := open(t, dir, Options{})
		j, err := New(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "refused", func() bool { return errors.Is(m.rec.Status().Cause, ErrLocked) })
		first.Close()
		eventually(t, "writing", writes(m))
		stop()
		j.Close()
	})
}

// holder is the environment of a process that holds a lock until it is killed.
const holder = "TARN_JOURNAL_TEST_HOLDER"

func TestJ06_TheKernelReleasesTheLockOfAKilledProcess(t *testing.T) {
	if dir := os.Getenv(holder); dir != "" {
		j, err := New(dir, Options{})
		if err == nil {
			err = j.acquire()
		}
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), holder+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("held\n"))
	if _, err := out.Read(line); err != nil || string(line) != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	j, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.acquire(); !errors.Is(err, ErrLocked) {
		t.Errorf("while it runs: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := errors.Join(j.acquire(), j.Close()); err != nil {
		t.Errorf("after it was killed: %v", err)
	}
}

func TestJ06_AReadOnlyFolderIsAReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := New(filepath.Join(file, "journal"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.acquire(); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("acquire: %v", err)
	}
}

// TestReadersNeedNoLock reads while the owner writes.
func TestReadersNeedNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, Options{MaxBytes: 100_000})
		m := newMirror(1, j.Log("things"), true)
		m.list(10)
		stop := m.run()
		eventually(t, "writing", writes(m))
		reader, err := New(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			m.churn()
			synctest.Wait()
			got, _, err := load(reader.Log("things"), want)
			if err != nil {
				t.Fatal(err)
			}
			if ago, ok := m.age(got); !ok || ago > 0 {
				t.Fatalf("the mirror had %v %d states ago, %v", got, ago, ok)
			}
		}
		stop()
	})
}

func TestResyncsAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, t.TempDir(), Options{})
		m := newMirror(1, j.Log("things"), true)
		m.list(3)
		stop := m.run()
		eventually(t, "writing", writes(m))
		m.apply(&object.Batch[thing]{Changes: []object.Change[thing]{{Kind: object.Synced, Key: object.Key{Namespace: "shop", Name: "thing-1"}}}})
		m.churn()
		stop()
		if got, _, err := load(j.Log("things"), want); err != nil || !got.equal(m.now()) {
			t.Errorf("loaded %v, %v", got, err)
		}
	})
}
