package tarn_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// state is what the server has under a key from a version on; no UID for nothing.
type state struct {
	from, version      uint64
	uid                types.UID
	selected, bad      bool // the mirror selects it, the mirror cannot decode it
	marked, finalizers bool
}

// floor is the oldest version at which the state of a key may be read after a write of this process.
// The history decides that of deletions, once the seed is over.
type floor struct {
	number     int       // of the server's history that the write belongs to
	version    uint64    // of an object that was written
	uid        types.UID // of an object whose last finalizer was removed after that version
	begin, end uint64    // the versions between which an object was deleted
	unseen     bool      // the namespace was not mirrored then
	written    bool      // the write left an object, with these properties
	is         state
}

// reading is one read of a key.
type reading struct {
	number  int // of the server's history in which it began
	how     string
	key     tarn.Key
	begin   int // the number of writes whose responses had arrived when it began
	end     uint64
	version uint64
	uid     types.UID // "" for NotFound
	err     error
	sharded bool // it finds no object outside of the shard
}

// oracle knows what the server had under each key at each version, and judges reads.
type oracle struct {
	mu       sync.Mutex // guards all below
	history  map[tarn.Key][]state
	acked    map[tarn.Key][]floor
	readings []reading
	trace    []string
	number   int  // of the server's history
	rewound  bool // what was written in the history before may still be an error
	selects  func(*corev1.ConfigMap) bool
	shards   []object.Shard // that were set
}

func (o *oracle) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trace = append(o.trace, fmt.Sprintf(format, args...))
}

func version(text string) (v uint64) {
	_, _ = fmt.Sscan(text, &v)
	return v
}

func (o *oracle) stateOf(m *corev1.ConfigMap) state {
	return state{
		version: version(m.ResourceVersion), uid: m.UID, selected: o.selects(m), bad: m.Labels["bad"] != "",
		marked: m.DeletionTimestamp != nil, finalizers: len(m.Finalizers) > 0,
	}
}

// changed records the state of a key after a change at a version; nil for nothing.
func (o *oracle) changed(key tarn.Key, at uint64, m *corev1.ConfigMap) {
	s := state{}
	if m != nil {
		s = o.stateOf(m)
	}
	s.from = at
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.history[key]
	if len(all) == 0 && s.uid == "" || len(all) > 0 && all[len(all)-1].uid == s.uid && all[len(all)-1].version == s.version {
		return
	}
	o.history[key] = append(all, s)
	o.trace = append(o.trace, fmt.Sprintf("  server %v %s: %+v", at, key, s))
}

// ack records that the response of a write has arrived.
func (o *oracle) ack(key tarn.Key, f floor) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.number != o.number {
		return
	}
	o.acked[key] = append(o.acked[key], f)
	o.trace = append(o.trace, fmt.Sprintf("  acked %s: %+v", key, f))
}

// unsee notes that the namespace of a key is not mirrored any more.
func (o *oracle) unsee(key tarn.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.acked[key] {
		o.acked[key][i].unseen = true
	}
}

// ackedSo returns the number of the history, and of the writes to a key whose responses have arrived.
func (o *oracle) ackedSo(key tarn.Key) (number, acked int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.number, len(o.acked[key])
}

func (o *oracle) read(r reading) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.number != o.number {
		return
	}
	o.readings = append(o.readings, r)
	o.trace = append(o.trace, fmt.Sprintf("  %s %s: %q at %d until %d, %v", r.how, r.key, r.uid, r.version, r.end, r.err))
}

// oldest returns the oldest version of which a reader may be shown the state.
func (o *oracle) oldest(key tarn.Key, begin int, of func(*floor) bool) (oldest uint64) {
	for _, f := range o.acked[key][:begin] {
		if !of(&f) {
			continue
		}
		at := f.version
		for i, s := range o.history[key] {
			if f.uid != "" && s.uid == "" && s.from > f.version && i > 0 && o.history[key][i-1].uid == f.uid {
				at = s.from // the end of the object
				break
			}
			already := i > 0 && o.history[key][i-1].marked // so that a deletion changes nothing
			if f.end > 0 && s.from > f.begin && s.from <= f.end && (s.uid == "" || s.marked) && !already {
				at = s.from // the deletion, or an earlier one
				break
			}
		}
		oldest = max(oldest, at)
	}
	return oldest
}

// judge returns what is wrong with a read.
func (o *oracle) judge(r *reading) error {
	oldest := o.oldest(r.key, r.begin, func(*floor) bool { return true })
	possible := []state{}
	all := o.history[r.key]
	if oldest == 0 && (len(all) == 0 || all[0].from > 0) {
		possible = append(possible, state{})
	}
	for i, s := range all {
		if (i+1 == len(all) || all[i+1].from > oldest) && s.from <= r.end {
			possible = append(possible, s)
		}
	}
	var bad *informer.QuarantinedError
	is := func(what string, match func(s *state) bool) error {
		for i := range possible {
			if match(&possible[i]) {
				return nil
			}
		}
		return fmt.Errorf("%s %s: %s (%q at %d, %v); since version %d the server had %+v", r.how, r.key, what, r.uid, r.version, r.err, oldest, possible)
	}
	switch {
	case o.rewound && (errors.As(r.err, &bad) || slices.ContainsFunc(possible, func(s state) bool { return s.bad })):
		return nil // an error about the history before, or the last good state of that
	case errors.As(r.err, &bad):
		return is("reported as unreadable", func(s *state) bool { return s.bad })
	case errors.Is(r.err, informer.ErrNotCovered):
		if o.rewound {
			return nil
		}
		return is("reported as outside", func(s *state) bool { return s.uid != "" && (!s.selected || o.outside(r, s)) })
	case r.err != nil && !apierrors.IsNotFound(r.err):
		return fmt.Errorf("%s %s: %w", r.how, r.key, r.err)
	case r.uid != "":
		return is("an older state", func(s *state) bool { return s.uid == r.uid && s.version == r.version })
	}
	// A mirror shows nothing for an object that it could never read; one that this process wrote to it is an error.
	own := len(possible) > 0 && possible[len(possible)-1].from <= o.oldest(r.key, r.begin, func(f *floor) bool { return !f.unseen })
	return is("not found", func(s *state) bool { return s.uid == "" || !s.selected || o.outside(r, s) || s.bad && !own })
}

// outside reports whether an object was ever outside of the shard.
func (o *oracle) outside(r *reading, s *state) bool {
	return r.sharded && slices.ContainsFunc(o.shards, func(shard object.Shard) bool { return !shard.Contains(s.uid, r.key.Namespace) })
}

func (o *oracle) verdict() (errs []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.judgeAll()
}

// judgeAll returns what is wrong with all reads. o.mu must be held.
func (o *oracle) judgeAll() (errs []error) {
	for i := range o.readings {
		if err := o.judge(&o.readings[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// another begins another history, unless rewind reports that it changed nothing.
func (o *oracle) another(rewind func() bool) (is bool, errs []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !rewind() {
		return false, nil
	}
	errs = o.judgeAll()
	o.rewound = true
	o.number++
	o.history, o.acked, o.readings = map[tarn.Key][]state{}, map[tarn.Key][]floor{}, nil
	o.trace = append(o.trace, "  another history")
	return true, errs
}

func (o *oracle) String() string { return strings.Join(o.trace, "\n") }
