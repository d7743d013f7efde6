package stream

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// parallelJobs is the number of objects from which a batch is decoded on several cores. Fewer
// are decoded before another core wakes up.
const parallelJobs = 8

// job is an object to be decoded.
type job struct {
	event int // index in events
	raw   []byte
}

// openOne appends the event of one frame. decodeAll decodes its object.
func (st *watch[T]) openOne(frame []byte) error {
	e, err := st.codec.event(frame)
	if err != nil {
		return err
	}
	var ev object.Event[T]
	switch {
	case e.kind != 0:
		return st.openObject(e)
	case e.bookmark:
		ev.Bookmark = true
		if kind, err := st.kindOf(e); err != nil {
			return err
		} else if !st.kind.right(kind) {
			return st.kind.wrong(kind.String())
		}
		m, err := st.codec.bookmark(e.raw)
		if err != nil {
			return err
		}
		ev.Item.Version = object.Version(m.ResourceVersion)
		ev.InitialEnd = m.Annotations[initialEventsEnd] == "true"
	case e.failed:
		if kind, err := st.kindOf(e); err != nil {
			return err
		} else if !isStatus(kind) {
			want := kindCheck{want: kindText{"v1", "Status"}, client: st.kind.client}
			return want.wrong(kind.String())
		}
		status, err := st.codec.status(e.raw)
		if err != nil {
			return err
		}
		ev.Err = st.kind.client.StatusError(st.call, status)
	}
	st.events = append(st.events, ev)
	return nil
}

// kindOf returns the kind of an event's object.
func (st *watch[T]) kindOf(e event) (kindBytes, error) {
	if !st.codec.selfNamed() {
		return e.of, nil
	}
	id, err := st.codec.peek(e.raw)
	if err != nil {
		return kindBytes{}, corrupt("object of a watch event: %w", err)
	}
	return id.kind, nil
}

// openObject appends the event of an object, and a job if it must be decoded.
func (st *watch[T]) openObject(e event) error {
	if e.raw == nil {
		return corrupt("watch event without an object")
	}
	selfNamed := st.codec.selfNamed()
	if !selfNamed && !st.kind.right(e.of) {
		return st.kind.wrong(e.of.String())
	}
	ev := object.Event[T]{Kind: e.kind}
	mayBeHeld := st.in != nil && st.in.Held != nil && e.kind != object.Deleted
	if mayBeHeld || st.lazy || sharded(st.in) {
		// If peeking fails, decoding decides whether the object is invalid.
		if id, err := st.codec.peek(e.raw); err == nil {
			if selfNamed && !st.kind.right(id.kind) {
				return st.kind.wrong(id.kind.String())
			}
			if sharded(st.in) && id.outside(st.in.Shard) {
				ev.Item.Outside, ev.Item.Version = true, object.Version(st.texts.others.bytes(id.version))
				if e.kind == object.Updated && st.in.Shard.By() == object.ByUID {
					ev.Item.Key = st.texts.key(id)
				}
				st.events = append(st.events, ev)
				return nil
			}
			if mayBeHeld || st.lazy {
				name(&st.texts, &ev.Item, id)
			}
			ev.Item.Held = mayBeHeld && st.in.Held(ev.Item.Key, ev.Item.UID, ev.Item.Version)
			if st.lazy && !ev.Item.Held {
				ev.Item.Raw = e.raw
			}
			if ev.Item.Held || st.lazy {
				st.events = append(st.events, ev)
				return nil
			}
		}
	}
	st.jobs = append(st.jobs, job{event: len(st.events), raw: e.raw})
	st.events = append(st.events, ev)
	return nil
}

// decodeAll runs the jobs, on several cores if there are enough.
func (st *watch[T]) decodeAll() {
	if workers := min(st.parallel, len(st.jobs)/(parallelJobs/2)); workers < 2 {
		for _, j := range st.jobs {
			st.decodeOne(j)
		}
	} else {
		var next atomic.Int64
		work := func() {
			for i := next.Add(1) - 1; i < int64(len(st.jobs)); i = next.Add(1) - 1 {
				st.decodeOne(st.jobs[i])
			}
		}
		var group sync.WaitGroup
		for range workers - 1 {
			group.Go(work)
		}
		work()
		group.Wait()
	}
}

func (st *watch[T]) decodeOne(j job) {
	item := &st.events[j.event].Item
	st.read(j.raw, item)
	if item.Err == nil && item.Encoded == nil {
		// Receivers keep keys longer than objects, and the name must not keep the object alive.
		item.Key.Name = strings.Clone(item.Key.Name)
	}
}
