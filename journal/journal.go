package journal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configure a [Journal]. The zero Options are ready to use.
type Options struct {
	// MaxBytes bounds the size of the folder. Old segments are deleted to stay below it; a log whose state does
	// not fit is not written. It should be several times the size of all states. Defaults to 1 GiB.
	MaxBytes int64
	// MaxAge is how long segments are kept that are not needed to start from. Defaults to 24 hours.
	MaxAge time.Duration
	// SyncEvery is how long a change may be written and not durable, so how much is lost when the machine fails.
	// A process that is killed does not lose it. Defaults to 1 second.
	SyncEvery time.Duration
	// Pending is how many changes of a mirror may wait to be written before the log stops, and begins again with a
	// whole state. Defaults to 8192.
	Pending int
	// Secrets allows mirrors of Secrets to be written. Defaults to false.
	Secrets bool

	disk disk // tests set it
}

var (
	// ErrLocked says that another process has the folder.
	ErrLocked = errors.New("journal: another process has this folder; give each process a folder of its own")
	// ErrFull says that what is to be written does not fit below [Options.MaxBytes].
	ErrFull = errors.New("journal: the folder would exceed its limit; raise MaxBytes")
	// ErrNone says that there is no state of a mirror.
	ErrNone = errors.New("journal: there is no state of this mirror yet")
)

// Journal is a folder with the logs of the mirrors of one process. Create one with [New]. All methods are safe for
// concurrent use.
type Journal struct {
	dir  string
	opts Options

	mu   sync.Mutex // guards all below
	held *os.File   // the lock; nil without it
	size int64      // of all segments, while the lock is held
	logs map[string]*Log
}

// New returns the journal in a folder, which it neither creates nor reads yet. The error names the invalid option.
func New(dir string, opts Options) (*Journal, error) {
	switch {
	case dir == "":
		return nil, errors.New("journal: a folder is needed")
	case opts.MaxBytes < 0 || opts.MaxAge < 0 || opts.SyncEvery < 0 || opts.Pending < 0:
		return nil, errors.New("journal: an option is negative; leave it 0 for the default")
	}
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 1<<30)
	opts.MaxAge = cmp.Or(opts.MaxAge, 24*time.Hour)
	opts.SyncEvery = cmp.Or(opts.SyncEvery, time.Second)
	opts.Pending = cmp.Or(opts.Pending, 8192)
	if opts.disk == nil {
		opts.disk = realDisk{}
	}
	return &Journal{dir: dir, opts: opts, logs: map[string]*Log{}}, nil
}

// Secrets reports whether mirrors of Secrets may be written.
func (j *Journal) Secrets() bool { return j.opts.Secrets }

// acquire creates the folder and takes its lock, which the kernel releases when the process ends. It does nothing if
// the journal has the lock. The error is [ErrLocked] if another process has it.
func (j *Journal) acquire() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held != nil {
		return nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	held, err := lock(filepath.Join(j.dir, "lock"))
	if err != nil {
		if errors.Is(err, ErrLocked) {
			return err
		}
		return fmt.Errorf("journal: %w", err)
	}
	j.held, j.size = held, 0
	for _, s := range j.segments() {
		j.size += s.size
	}
	return nil
}

// Close releases the lock.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held == nil {
		return nil
	}
	err := j.held.Close()
	j.held = nil
	return err
}

// Log returns the log with a name, such as that of a mirror. It does not read or create it.
func (j *Journal) Log(name string) *Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l := j.logs[name]; l != nil {
		return l
	}
	l := &Log{journal: j, dir: filepath.Join(j.dir, folderOf(name)), turn: make(chan struct{}, 1)}
	j.logs[name] = l
	return l
}

// extension is that of a segment.
const extension = ".segment"

// segment is a file of a log.
type segment struct {
	path    string
	number  int
	size    int64
	changed time.Time
}

// segmentsIn returns the segments that a pattern matches, the oldest of each log first.
func segmentsIn(pattern string) (found []segment) {
	paths, _ := filepath.Glob(pattern) // the only error is that of the pattern
	for _, path := range paths {
		s := segment{path: path}
		info, err := os.Stat(path)
		if _, bad := fmt.Sscanf(filepath.Base(path), "%d"+extension, &s.number); err != nil || bad != nil {
			continue
		}
		s.size, s.changed = info.Size(), info.ModTime()
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b segment) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.path, b.path)) })
	return found
}

func (j *Journal) segments() []segment {
	return segmentsIn(filepath.Join(escape(j.dir), "*", "*"+extension))
}

// escape quotes what filepath.Glob would take for a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// grow makes room for n bytes.
func (j *Journal) grow(n int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.size+int64(n) > j.opts.MaxBytes {
		j.prune(int64(n))
	}
	if j.size+int64(n) > j.opts.MaxBytes {
		return ErrFull
	}
	j.size += int64(n)
	return nil
}

// prune deletes segments that are too old, and the oldest ones until there is room for so many bytes. It does not
// delete what a log needs to start from. j.mu must be held.
func (j *Journal) prune(room int64) {
	needed := map[string]bool{}
	for _, l := range j.logs {
		needed[l.whole], needed[l.open] = true, true
	}
	all := j.segments()
	j.size = 0 // whatever a failed write has left
	for _, s := range all {
		j.size += s.size
	}
	slices.SortStableFunc(all, func(a, b segment) int { return a.changed.Compare(b.changed) })
	for _, s := range all {
		old := time.Since(s.changed) > j.opts.MaxAge
		if !needed[s.path] && (old || j.size+room > j.opts.MaxBytes) {
			j.delete(s)
		}
	}
}

// delete deletes a segment, and its folder if that was the last one. j.mu must be held.
func (j *Journal) delete(s segment) {
	if j.opts.disk.Remove(s.path) == nil {
		j.size -= s.size
		_ = os.Remove(filepath.Dir(s.path)) // fails if there are others
	}
}

// file is what a segment is written to.
type file interface {
	Write([]byte) (int, error)
	Sync() error
	Close() error
}

// disk is how segments are written. Tests inject faults with it.
type disk interface {
	Create(path string) (file, error)
	Remove(path string) error
}

type realDisk struct{}

// Create creates a file that only its owner can read, and makes its name durable.
func (realDisk) Create(path string) (file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // some file systems cannot; a name that is lost costs an older state
		dir.Close()
	}
	return f, nil
}

// Remove deletes a file.
func (realDisk) Remove(path string) error { return os.Remove(path) }
