package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tarnproject/tarn/internal/packing"
	"github.com/tarnproject/tarn/object"
)

// Recorded describes a mirror in a recording.
type Recorded struct {
	Identity
	// Kind is that of the objects, and Namespaced whether they have a namespace. Names are the singular and the
	// short names of the resource. Segments of a journal have none of the three.
	Kind       string   `json:"kind,omitempty"`
	Namespaced bool     `json:"namespaced,omitempty"`
	Names      []string `json:"names,omitempty"`
}

// Activity is what a controller did: it reconciled a key, or wrote an object.
type Activity struct {
	// At is when it began, and Took how long it took.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took,omitempty"`
	// Controller is its name.
	Controller string `json:"controller,omitempty"`
	// Verb is "reconcile", or that of the write, such as "update". Resource is that of a write, such as
	// "apps/v1/deployments".
	Verb     string `json:"verb"`
	Resource string `json:"resource,omitempty"`
	// Key is the reconciled one or that of the object, and Version the one that the write led to.
	Key     object.Key     `json:"key"`
	Version object.Version `json:"version,omitempty"`
	// Cause is why the key was reconciled, and Outcome how that or the write ended, such as an error.
	Cause   string `json:"cause,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// Event is an entry of a recording.
type Event struct {
	// At is when it was received. Of an object of a whole state it is when the file began.
	At time.Time
	// Mirror is the mirror that received it; nil for an activity.
	Mirror *Recorded
	// Entry is an object of a whole state or a change. Its Kind is Synced at the end of a state: the mirror
	// has no other objects then. Its Data must not be kept.
	Entry
	// State is true for an object of a whole state and for its end.
	State bool
	// Activity is what a controller did; otherwise nil.
	Activity *Activity
}

// Recording writes a recording: one file with the states and changes of several mirrors and the activity of
// controllers, in the order of the calls and in the format of segments. The file can be read at any time, up to what
// was written. All methods are safe for concurrent use. After an error nothing more is written.
type Recording struct {
	mu      sync.Mutex // guards all below
	w       *writer
	err     error
	mirrors map[*Recorded]*recordedMirror
	current *Recorded // the records are of
}

type recordedMirror struct {
	number int
	packer packing.Packer
}

// NewRecording creates the file of a recording, which must not exist. Only its owner can read it.
func NewRecording(path string) (*Recording, error) {
	f, err := realDisk{}.Create(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	w, err := newWriter(f, Identity{}, func(int) error { return nil })
	if err == nil {
		err = w.flush() // so that it can be read
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Recording{w: w, mirrors: map[*Recorded]*recordedMirror{}}, nil
}

// Objects writes objects of the whole state of a mirror, which [Recording.Complete] ends. The entries are Added.
func (r *Recording) Objects(of *Recorded, objects []Entry) error {
	return r.write(of, func(w *writer, p *packing.Packer) error {
		for i := range objects {
			if err := w.object(&objects[i], p.Pack(objects[i].Data)); err != nil {
				return err
			}
		}
		if len(w.record) > 0 {
			return w.end()
		}
		return nil
	})
}

// Complete ends the whole state of a mirror, which was received at a time.
func (r *Recording) Complete(of *Recorded, at time.Time) error {
	return r.write(of, func(w *writer, _ *packing.Packer) error { return w.complete(moment{at: at}) })
}

// Changes writes a batch of changes that a mirror received at a time.
func (r *Recording) Changes(of *Recorded, at time.Time, changes []Entry) error {
	return r.write(of, func(w *writer, p *packing.Packer) error {
		return w.batch(moment{at: at}, len(changes), func() error {
			for i := range changes {
				e, packed := &changes[i], packing.Packed{}
				if !e.removes() {
					packed = p.Pack(e.Data)
				}
				w.entry(e, packed)
			}
			return nil
		})
	})
}

// Did writes what a controller did.
func (r *Recording) Did(a Activity) error {
	return r.write(nil, func(w *writer, _ *packing.Packer) error {
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		w.record = append(append(w.record, activityRecord), text...)
		return w.end()
	})
}

// Size returns how many bytes were written.
func (r *Recording) Size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.w.size
}

// Close makes the recording durable and closes the file. The error is the first of all.
func (r *Recording) Close() error {
	err := r.write(nil, func(*writer, *packing.Packer) error { return nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		err = r.w.sync()
		r.err = errors.New("journal: the recording is closed")
	}
	return errors.Join(err, r.w.f.Close())
}

// write writes records of a mirror, or of none.
func (r *Recording) write(of *Recorded, records func(*writer, *packing.Packer) error) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	defer func() { r.err = err }()
	var packer *packing.Packer
	if of != nil {
		m := r.mirrors[of]
		var text []byte
		if m == nil {
			m = &recordedMirror{number: len(r.mirrors) + 1}
			r.mirrors[of] = m
			if text, err = json.Marshal(of); err != nil {
				return err
			}
		}
		if r.current != of {
			r.w.record = append(binary.AppendUvarint(append(r.w.record, mirrorRecord), uint64(m.number)), text...)
			if err := r.w.end(); err != nil {
				return err
			}
			r.current = of
		}
		packer = &m.packer
	}
	if err := records(r.w, packer); err != nil {
		return err
	}
	return r.w.flush()
}

// Events reads a recording, or all segments in the folder of a journal, one mirror after the other. It yields what is
// intact, in the order of the file, and ends at an error: a [*FormatError], or [ErrDamaged] if the file is none of
// this package. An event is valid until the next.
func Events(path string) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		info, err := os.Stat(path)
		if err != nil {
			yield(nil, fmt.Errorf("journal: %w", err))
			return
		}
		if !info.IsDir() {
			_, _ = eventsOf(path, nil, yield)
			return
		}
		folders, _ := filepath.Glob(filepath.Join(escape(path), "*")) // the only error is that of the pattern
		for _, folder := range folders {
			var last *Recorded
			for _, s := range segmentsIn(filepath.Join(escape(folder), "*"+extension)) {
				again := true
				last, again = eventsOf(s.path, last, func(ev *Event, err error) bool {
					if errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrDamaged) {
						return true // deleted meanwhile, or its beginning was not written
					}
					return yield(ev, err)
				})
				if !again {
					return
				}
			}
		}
	}
}

// eventsOf reads a file. last is the mirror of the segment before it. It returns the mirror of the file, and whether
// to go on.
func eventsOf(path string, last *Recorded, yield func(*Event, error) bool) (of *Recorded, again bool) {
	f, err := os.Open(path)
	if err != nil {
		return last, yield(nil, fmt.Errorf("journal: %w", err))
	}
	defer f.Close()
	r, err := newReader(f)
	if err != nil {
		return last, yield(nil, err)
	}
	switch {
	case r.Resource == "": // a recording, which names its mirrors
	case last != nil && r.differs(last.Identity) == nil:
		of = last
	default:
		of = &Recorded{Identity: r.Identity}
	}
	return of, r.events(of, yield)
}

// events yields what is intact. of is the mirror of a segment; nil for a recording.
func (r *reader) events(of *Recorded, yield func(*Event, error) bool) (again bool) {
	var mirrors []*Recorded
	current := of
	for again = true; again; {
		record, err := r.next()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return yield(nil, fmt.Errorf("journal: %w", err))
		}
		ev := Event{At: r.Began, Mirror: current}
		each := func(e *Entry) {
			if ev.Entry = *e; again {
				again = yield(&ev, nil)
			}
		}
		r.d.data = record[1:]
		switch kind := record[0]; {
		case kind == dictionaryRecord:
			r.d.dictionary()
		case kind == mirrorRecord && of == nil:
			n := r.d.number()
			if n == len(mirrors)+1 && !r.d.bad {
				m := new(Recorded)
				if json.Unmarshal(r.d.data, m) != nil || m.Resource == "" {
					r.d.fail()
				}
				mirrors = append(mirrors, m)
			}
			if r.d.bad || n == 0 || n > len(mirrors) {
				r.d.fail()
				break
			}
			current = mirrors[n-1]
		case kind == activityRecord:
			ev.Mirror, ev.Activity = nil, new(Activity)
			if json.Unmarshal(r.d.data, ev.Activity) != nil {
				r.d.fail()
				break
			}
			ev.At = ev.Activity.At
			again = yield(&ev, nil)
		case current == nil:
			r.d.fail()
		case kind == objectsRecord:
			ev.State = true
			r.entries(-1, each)
		case kind == stateRecord:
			ev.At, ev.State, ev.Kind = r.d.moment().at, true, object.Synced
			again = again && !r.d.bad && yield(&ev, nil)
		case kind == batchRecord:
			ev.At = r.d.moment().at
			r.entries(r.d.number(), each)
		default:
			r.d.fail()
		}
		if r.d.bad {
			return again && yield(nil, fmt.Errorf("%w, although its checksum is right: %w", errRecord, ErrDamaged))
		}
	}
	return again
}
