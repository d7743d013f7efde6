package apiserver

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReplayOptions configure a [Replayed] server.
type ReplayOptions struct {
	// Options are those of the server. What controllers did is in the recording, so CollectGarbage is ignored, and
	// KeepNamespaces and AnyNamespace are set.
	Options
	// At is the moment of the recording that the server begins with. Defaults to the first at which every mirror
	// has its state.
	At time.Time
	// Speed is how many times faster than it was recorded [Replayed.Play] plays. Defaults to 1. With
	// math.Inf(1) it does not wait.
	Speed float64
	// Only restricts what is replayed to some objects. Defaults to all.
	Only func(of *journal.Recorded, key object.Key) bool
	// Shown receives what happens, in order: what the recording has, and what clients of this server write beside it.
	// It is called by one goroutine at a time. Defaults to none.
	Shown func(ReplayEvent)
}

// ReplayEvent is something that happens during a replay.
type ReplayEvent struct {
	// At is the time in the recording.
	At time.Time
	// Client is true for a write by a client of this server, and false for what was recorded.
	Client bool
	// What is the verb of a write by a client, and ADDED, MODIFIED or DELETED for a recorded change.
	What string
	// Resource is that of the object.
	Resource object.Resource
	// Key is that of the object. A name that the server generates is missing.
	Key object.Key
	// Result is the status of the response to a write, and the faults that hit it.
	Result string
	// Old and New are the states of a recorded object; nil for none. They must not be modified.
	Old, New runtime.Object
	// Activity is what a controller was recorded doing; nil for all else.
	Activity *journal.Activity
}

// Replayed is a server with the objects of a recording at a moment, which [Replayed.Play] changes as they changed
// then. Objects have their recorded resource versions, in a list and in each event. Clients may write: that changes this
// copy. The next recorded change of an object replaces what they wrote, and if they used its version, it gets the next
// one.
type Replayed struct {
	*Server
	opts       ReplayOptions
	begin, end time.Time
	kinds      []*kinds.Kind // that were recorded
	left       []replayStep

	mu sync.Mutex // guards now; held while Shown is called
	// now is the moment that the objects are of. While the recording plays, it was reached at the time played.
	now, played time.Time
}

// NewReplay returns a server for a recording, or for the folder of a journal. It serves nothing until [Server.Run].
func NewReplay(path string, opts ReplayOptions) (*Replayed, error) {
	if opts.Speed == 0 {
		opts.Speed = 1
	}
	if !(opts.Speed > 0) {
		return nil, fmt.Errorf("apiserver: a recording cannot be played at the speed %v", opts.Speed)
	}
	opts.CollectGarbage, opts.KeepNamespaces, opts.AnyNamespace = false, true, true
	server, err := New(opts.Options)
	if err != nil {
		return nil, err
	}
	r := &Replayed{Server: server, opts: opts}
	if err := r.load(path); err != nil {
		_ = server.Close() // the earlier error matters more
		return nil, err
	}
	if opts.Shown != nil {
		server.requests.wrote = r.wrote
	}
	return r, nil
}

// Replay is [NewReplay] and [Start]: it runs the server until the test ends, and fails the test if the recording cannot be
// read. In a testing/synctest bubble the same file leads to the same events in the same order every time, because the
// clients have handled each of them before the next.
func Replay(t TB, path string, opts ReplayOptions) *Replayed {
	t.Helper()
	r, err := NewReplay(path, opts)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	run(t, r.Server)
	return r
}

// Span returns the first moment at which every mirror of the recording has its state, and that of the last change.
func (r *Replayed) Span() (begin, end time.Time) { return r.begin, r.end }

// Objects yields the recorded objects that there are now, with what clients wrote, by resource and then by key. They must not be
// modified.
func (r *Replayed) Objects(yield func(object.Resource, runtime.Object) bool) {
	for _, k := range r.kinds {
		for _, rec := range r.storage.All(k, "") {
			if !yield(k.Resource, rec.Obj) {
				return
			}
		}
	}
}

// Now returns the time in the recording. [ReplayOptions.Shown] must not call it.
func (r *Replayed) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock()
}

// clock is Now for callers that hold the lock.
func (r *Replayed) clock() time.Time {
	if r.played.IsZero() || math.IsInf(r.opts.Speed, 1) {
		return r.now
	}
	now := r.now.Add(time.Duration(float64(time.Since(r.played)) * r.opts.Speed))
	if len(r.left) > 0 && now.After(r.left[0].at) {
		return r.left[0].at // it is due
	}
	return now
}

// Play plays the recording from the present moment to its end or until the context is done, and returns the context's
// error then. Call it once.
func (r *Replayed) Play(ctx context.Context) error {
	began, from, last := time.Now(), r.Now(), time.Time{}
	for len(r.left) > 0 {
		due := began
		if at := r.left[0].at; at.After(from) {
			due = began.Add(time.Duration(float64(at.Sub(from)) / r.opts.Speed))
		}
		// In virtual time, time passes only after all clients have handled what was before.
		if least := last.Add(time.Microsecond); due.Before(least) {
			due = least
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		last = time.Now()
		if err := r.play(); err != nil {
			return err
		}
	}
	return nil
}

// play makes the next recorded change.
func (r *Replayed) play() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.left[0]
	r.left = r.left[1:]
	r.now, r.played = s.at, time.Now()
	ev := ReplayEvent{At: s.at, Activity: s.activity}
	if s.activity == nil {
		k, obj, err := s.decode(r.Server)
		if err != nil {
			return err
		}
		ev.Resource, ev.Key = k.Resource, s.key
		switch ev.Old, ev.New = r.storage.Put(k, s.key, obj, s.version), obj; {
		case ev.Old == nil && obj == nil:
			return nil // a client has deleted it
		case ev.Old == nil:
			ev.What = "ADDED"
		case obj == nil:
			ev.What = "DELETED"
		default:
			ev.What = "MODIFIED"
		}
	}
	if r.opts.Shown != nil {
		r.opts.Shown(ev)
	}
	return nil
}

// wrote shows a write by a client.
func (r *Replayed) wrote(name requestName, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verb := name.verb
	if name.subresource != "" {
		verb += " " + name.subresource
	}
	r.opts.Shown(ReplayEvent{At: r.clock(), Client: true, What: verb, Resource: name.kind.Resource, Key: name.key, Result: result})
}
