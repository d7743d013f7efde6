package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

// World is everything except the reader: a server, its writers, and their faults. One
// goroutine at a time uses it.
type World struct {
	Server *Server
	Faulty *Faulty // before the server
	Writer *Writer
	// Marks returns the progress of each source of the reader. A restore is done only while one of
	// them can notice it, and nothing is written before one has, for which the reader has to make
	// all of them begin a new epoch.
	Marks func() []object.Mark
	// Settle, if set, waits until readers have made use of all they received.
	Settle func()

	rand    *rand.Rand
	hazards bool
	quiet   bool
	down    bool         // for as long as an outage or a removal lasts
	rewound bool         // and perhaps not noticed by all sources yet
	epoch   object.Epoch // the latest of a source before that
}

// Namespaces are where the writers of a world write.
var Namespaces = []string{"one", "two", "three"}

// NewWorld returns a random world, determined by r.
func NewWorld(r *rand.Rand, trace *Trace) *World {
	split := func() *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }
	quirks, plan := RandomQuirks(r), RandomFaults(r)
	trace.Add("world", "quirks %+v; %v", quirks, plan)
	w := &World{Server: NewServer(quirks, trace), rand: split(), hazards: r.IntN(3) > 0}
	w.Faulty = NewFaulty(w.Server, plan, split(), trace)
	w.Writer = NewWriter(w.Server, split(), 2+r.IntN(5), Namespaces...)
	for range r.IntN(30) {
		w.Writer.Write()
	}
	return w
}

// Move does one thing: mostly a write or a few.
func (w *World) Move() {
	if w.quiet {
		return
	}
	n := w.rand.IntN(100)
	if w.down && n < 25 {
		w.up()
		return
	}
	if w.unnoticed() {
		return
	}
	if n >= 70 && !w.hazards {
		n = 0
	}
	switch {
	case n < 65:
		for range 1 + w.rand.IntN(3) {
			w.Writer.Write()
		}
	case n < 70:
		for range 10 + w.rand.IntN(20) {
			w.Writer.Write()
		}
	case n < 80:
		w.Server.Compact(w.rand.IntN(10))
	case n < 86:
		w.Server.Cut()
	case n < 89:
		w.down = true
		w.Faulty.Outage([...]func() error{refused, unauthorized, forbidden, notFound, unavailable}[w.rand.IntN(5)]())
	case n < 90:
		w.down = true
		w.Server.Remove()
	case n < 93 && !w.Rewound():
		w.rewind()
	}
}

func (w *World) up() {
	w.down = false
	w.Faulty.Outage(nil)
	w.Server.Restore()
}

// rewind restores an older state and writes a little into the new history, below the
// latest version that a source has seen: other states for versions they know. Sources that have
// seen less may be unable to notice.
//
// Where deletions do not carry their versions, readers do not know how far they have come,
// and could not notice.
func (w *World) rewind() {
	if w.Server.quirks.OwnVersionDeleted {
		return
	}
	to := w.Server.Rewind(1 + w.rand.IntN(15))
	w.Faulty.Forget()
	if w.Settle != nil {
		w.Settle()
	}
	limit := uint64(0)
	for _, m := range w.Marks() {
		w.epoch = max(w.epoch, m.Epoch)
		if v, err := parse(m.Version); err == nil && v > to {
			limit = max(limit, v)
		}
	}
	w.rewound = limit > 0
	const most = 6 // versions that one write may use up
	for range w.rand.IntN(6) {
		if limit > 0 && w.Server.Version()+most >= limit {
			break
		}
		w.Writer.Write()
	}
}

// Rewound reports whether a source may know versions of a history that is no more.
func (w *World) Rewound() bool {
	if w.rewound {
		w.rewound = slices.ContainsFunc(w.Marks(), func(m object.Mark) bool { return m.Version.Known() && m.Epoch <= w.epoch })
	}
	return w.rewound
}

// unnoticed reports whether no source knows of a restore yet. If anything were written now, none
// might ever find out.
func (w *World) unnoticed() bool {
	return w.Rewound() && !slices.ContainsFunc(w.Marks(), func(m object.Mark) bool { return m.Epoch > w.epoch })
}

// Exact reports whether a reader at a version of the server must have just the state of
// that version, except of spoiled objects: every object could be named, no restore is unnoticed,
// and deletions carry their versions.
func (w *World) Exact() bool {
	_, blurred := w.Faulty.Spoiled()
	return !w.Server.quirks.OwnVersionDeleted && !w.Rewound() && !blurred
}

// IsQuiet reports whether nothing is written and no fault happens.
func (w *World) IsQuiet() bool { return w.quiet }

// Quiet ends all faults and writes. Heal and then Noisy go on.
func (w *World) Quiet() {
	w.quiet = true
	w.up()
	w.Faulty.Off(true)
	if _, blurred := w.Faulty.Spoiled(); w.unnoticed() || blurred {
		// Nothing may be written before a restore is noticed, and a list with a nameless item
		// deletes nothing, only the next one does.
		w.Faulty.Expire()
		w.Server.Cut()
	}
}

// Heal makes up for what no reader could know: objects that were undecodable get a new version.
func (w *World) Heal() {
	keys, _ := w.Faulty.Spoiled()
	w.Writer.Touch(keys)
}

// Noisy ends Quiet.
func (w *World) Noisy() {
	w.quiet = false
	w.Faulty.Healed()
	w.Faulty.Off(false)
}

// Compare returns how a state that a reader has of a selection differs from the server's. Of an
// object that could not be decoded, the reader may have an older state of the same life, or none.
func (w *World) Compare(got, want map[object.Key]*Thing) error {
	keys, _ := w.Faulty.Spoiled()
	want = maps.Clone(want)
	for _, k := range keys {
		if g := got[k]; g == nil || want[k] != nil && want[k].UID == g.UID {
			want[k] = g
		}
		if want[k] == nil {
			delete(want, k)
		}
	}
	return Compare(got, want)
}

// Idle lets the world go on while its only goroutine waits for it; see [Server.Idle].
func (w *World) Idle(closed <-chan struct{}) {
	switch {
	case closed == nil: // in the middle of a list
		if w.rand.IntN(6) == 0 {
			w.Move()
		}
	case !w.quiet && w.rand.IntN(3) > 0:
		w.Move()
	default:
		t := time.NewTimer(time.Duration(1+w.rand.IntN(30)) * time.Second)
		defer t.Stop()
		select {
		case <-t.C:
		case <-closed:
		}
	}
}
