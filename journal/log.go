package journal

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Log is the part of a journal that belongs to one mirror. A [Recorder] writes it, one at a time. All other methods
// are safe for concurrent use.
type Log struct {
	journal *Journal
	dir     string
	turn    chan struct{} // has room for one token, which the recorder that runs has

	// journal.mu guards these.
	whole string // the last segment with a whole state, which is kept
	open  string // the segment that is being written
}

// folderOf returns a readable folder name of a log, which differs for each name.
func folderOf(name string) string {
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, name)
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return fmt.Sprintf("%.60s-%016x", readable, hash.Sum64())
}

// State is what a log has of its mirror.
type State struct {
	// At is when the last record was written: until then the state was current.
	At time.Time
	// Marks are the versions up to which the state has everything, one for each scope.
	Marks []Mark
	// Unreadable is how many objects the server had that the mirror could not read.
	Unreadable int
}

// reached moves the state to the moment of a record. index has the place of each scope's mark.
func (s *State) reached(m moment, index map[string]int) {
	s.At, s.Unreadable = m.at, m.unreadable
	for _, mark := range m.marks {
		i, ok := index[string(mark.Scope)]
		if !ok {
			i = len(s.Marks)
			index[string(mark.Scope)] = i
			s.Marks = append(s.Marks, mark)
		}
		s.Marks[i] = mark
	}
}

// Mark returns the mark of a scope; ok is false if the state has none.
func (s *State) Mark(scope string) (mark Mark, ok bool) {
	for _, m := range s.Marks {
		if string(m.Scope) == scope && m.Version.Known() {
			return m, true
		}
	}
	return Mark{}, false
}

// Load reads the last state: it calls each for every object and then for every change, in order. It calls begin
// before that, and again if it turns out that a segment has no whole state and an older one is read instead: what
// each received so far is void then. The error is a [*MismatchError] if the state is of another mirror, a
// [*FormatError], [ErrDamaged] or [ErrNone].
func (l *Log) Load(want Identity, begin func(), each func(*Entry)) (State, error) {
	all := segmentsIn(filepath.Join(escape(l.dir), "*"+extension))
	failure := error(ErrNone)
	for i := len(all) - 1; i >= 0; i-- {
		st, err := readSegment(all[i].path, want, begin, each)
		if err == nil {
			l.journal.mu.Lock()
			if l.whole == "" {
				l.whole = all[i].path
			}
			l.journal.mu.Unlock()
			return st, nil
		}
		failure = err
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return State{}, failure
}

func readSegment(path string, want Identity, begin func(), each func(*Entry)) (State, error) {
	f, err := os.Open(path)
	if err != nil {
		return State{}, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	r, err := newReader(f)
	if err == nil {
		err = r.Identity.differs(want)
	}
	if err != nil {
		return State{}, err
	}
	begin()
	return r.read(each)
}

// discard deletes the log, for a mirror that must not be written. It does nothing unless the journal has its lock.
func (l *Log) discard() {
	j := l.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held == nil {
		return
	}
	l.whole, l.open = "", ""
	for _, s := range segmentsIn(filepath.Join(escape(l.dir), "*"+extension)) {
		j.delete(s)
	}
}

// begin creates the next segment.
func (l *Log) begin(id Identity) (*writer, error) {
	j := l.journal
	number := 1
	if all := segmentsIn(filepath.Join(escape(l.dir), "*"+extension)); len(all) > 0 {
		number = all[len(all)-1].number + 1
	}
	path := filepath.Join(l.dir, fmt.Sprintf("%016d%s", number, extension))
	j.mu.Lock()
	l.open = path
	j.mu.Unlock()
	f, err := j.opts.disk.Create(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	w, err := newWriter(f, id, j.grow)
	if err != nil {
		f.Close()
	}
	return w, err
}

// completed records that the open segment has a whole state, and deletes what is too old.
func (l *Log) completed() {
	j := l.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	l.whole = l.open
	j.prune(0)
}

// abandon deletes the open segment if it has no whole state.
func (l *Log) abandon() {
	j := l.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.open != "" && l.open != l.whole {
		if info, err := os.Stat(l.open); err == nil {
			j.delete(segment{path: l.open, size: info.Size()})
		}
	}
	l.open = ""
}
