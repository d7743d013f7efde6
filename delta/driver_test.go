package delta_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// chooser supplies the driver's decisions: rapid, or a fuzzer's bytes.
type chooser interface {
	Fatalf(format string, args ...any)
	choose(what string, n int) int
}

// driver applies the same calls to a FIFO and to the model and compares them.
type driver struct {
	c        chooser
	f        *delta.FIFO[*thing]
	m        *model
	held     *cache                // what the consumer holds
	expected map[object.Key]*thing // what it should hold when nothing is pending
	lossy    bool                  // changes were dropped on purpose; expected does not apply
	// losing is set if the changes in flight will be dropped.
	losing bool
	next   int // version
	ids    int
	keys   []object.Key
	trace  []string
}

// fewKeys is small, so that changes often have the same key.
var fewKeys = []object.Key{
	{Namespace: "a", Name: "x"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "z"},
	{Namespace: "b", Name: "x"}, {Namespace: "b", Name: "y"},
}

func newDriver(c chooser, keys []object.Key) *driver {
	d := &driver{c: c, keys: keys, held: newCache(), expected: map[object.Key]*thing{}, next: 9}
	opts := delta.Options[*thing]{}
	opts.ReplacedAsSync = c.choose("replaced as sync", 4) == 3
	var known *cache
	if c.choose("known is nil", 4) != 3 {
		known = d.held
		opts.Known = known
	}
	for range c.choose("known at first", 3) {
		o := d.thing()
		d.held.m[o.key], d.expected[o.key] = o, o
	}
	d.m = newModel(known)
	d.m.asSync = opts.ReplacedAsSync
	f, err := delta.New(things, opts)
	d.ok(err)
	d.f = f
	return d
}

func (d *driver) fail(format string, args ...any) {
	d.c.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), lines(d.trace))
}

func lines(s []string) (out string) {
	for _, l := range s {
		out += "  " + l + "\n"
	}
	return out
}

func (d *driver) note(format string, args ...any) {
	d.trace = append(d.trace, fmt.Sprintf(format, args...))
}

func (d *driver) ok(err error) {
	if err != nil {
		d.fail("unexpected error: %v", err)
	}
}

func (d *driver) key() object.Key { return d.keys[d.c.choose("key", len(d.keys))] }

// version returns mostly the next version, sometimes an old one, an incomparable one, or none.
func (d *driver) version() object.Version {
	switch d.c.choose("version", 12) {
	case 9:
		return object.Version(fmt.Sprint(max(1, d.next-3)))
	case 10:
		return object.Version(fmt.Sprintf("v%d", d.c.choose("unordered", 2)))
	case 11:
		return ""
	}
	d.next++
	return object.Version(fmt.Sprint(d.next))
}

func (d *driver) thing() *thing {
	d.ids++
	return &thing{key: d.key(), uid: object.UID(fmt.Sprint("u", d.c.choose("uid", 2))), version: d.version(), id: d.ids}
}

// produce makes one call of a producer or an observer.
func (d *driver) produce() {
	switch d.c.choose("what", 12) {
	case 0, 1:
		d.event(object.Added)
	case 2:
		d.event(object.Updated)
	case 3, 4:
		d.event(object.Deleted)
	case 5:
		t := object.Tombstone[*thing]{Key: d.key()}
		if d.c.choose("with object", 2) == 1 {
			d.ids++
			t.Object = &thing{key: t.Key, id: d.ids}
		}
		d.note("DeleteUnknown %v %v", t.Key, t.Object)
		d.ok(d.f.DeleteUnknown(t))
		d.queued(object.Change[*thing]{Kind: object.Deleted, Unknown: true, Key: t.Key, Value: object.Decoded(t.Object)})
	case 6, 7:
		d.replace()
	case 8:
		d.note("Resync")
		d.ok(d.f.Resync())
		d.m.resync()
	case 9:
		d.apply()
	case 10:
		d.look()
	case 11:
		d.event(object.Quarantined)
	}
	d.glance()
}

// event queues an event with the method for its kind, or as a batch.
func (d *driver) event(kind object.Kind) {
	o := d.thing()
	c := changeOf(kind, o)
	d.note("%v %v", kind, o)
	switch {
	case kind == object.Added:
		d.ok(d.f.Add(o))
	case kind == object.Updated:
		d.ok(d.f.Update(o))
	case kind == object.Deleted:
		d.ok(d.f.Delete(o))
	default:
		d.ok(d.f.Apply(&object.Batch[*thing]{Changes: []object.Change[*thing]{c}}))
	}
	d.queued(c)
}

// apply queues several changes as one batch.
func (d *driver) apply() {
	var b object.Batch[*thing]
	for range d.c.choose("changes", 4) {
		kind := []object.Kind{object.Added, object.Updated, object.Deleted, object.Quarantined}[d.c.choose("kind", 4)]
		b.Changes = append(b.Changes, changeOf(kind, d.thing()))
	}
	d.note("Apply %s", show(b.Changes))
	d.ok(d.f.Apply(&b))
	for _, c := range b.Changes {
		d.queued(c)
	}
}

// queued has the model and the expected state follow a change.
func (d *driver) queued(c object.Change[*thing]) {
	switch {
	case c.Kind == object.Quarantined:
	case c.Kind != object.Deleted:
		d.expected[c.Key] = c.Value.Object
	case d.m.deletable(c):
		delete(d.expected, c.Key)
	}
	d.m.event(c)
}

func (d *driver) anyScope() object.Scope {
	return []object.Scope{object.Everything, "a", "b"}[d.c.choose("scope", 3)]
}

func (d *driver) replace() {
	list := object.List[*thing]{Mark: object.Mark{Scope: d.anyScope(), Version: d.version()}}
	for range d.c.choose("items", 5) {
		o := d.thing()
		if !list.Scope.Covers(o.key) {
			continue
		}
		item, _ := object.ItemOf(things, o)
		switch d.c.choose("stage", 6) {
		case 3, 4: // the object that the consumer should already have, if any
			if d.losing || d.m.known == nil {
				break
			}
			if known, ok := d.expected[o.key]; ok && d.heldAgrees(known) && !listed(list, o.key) {
				item = object.Item[*thing]{Key: o.key, UID: known.uid, Version: known.version, Held: true}
			}
		case 5:
			item.Object, item.Err = nil, errors.New("undecodable")
			if d.c.choose("nameless", 4) == 3 {
				item.Key = object.Key{}
			}
		}
		list.Items = append(list.Items, item)
	}
	d.note("Replace %v", show([]object.Change[*thing]{{List: &list}}))
	// Each gets its own copy, because the FIFO owns its argument.
	mine := list
	mine.Items = slices.Clone(list.Items)
	d.ok(d.f.Replace(mine))
	d.m.replace(list)
	replaceIn(d.expected, list)
}

func listed(list object.List[*thing], key object.Key) bool {
	return slices.ContainsFunc(list.Items, func(i object.Item[*thing]) bool { return i.Key == key })
}

// heldAgrees compares Held of both.
func (d *driver) heldAgrees(o *thing) bool {
	got, want := d.f.Held(o.key, o.uid, o.version), d.m.isHeld(o.key, o.uid, o.version)
	if got != want {
		d.fail("Held(%v) is %v, want %v", o, got, want)
	}
	return got
}

// glance compares what can be read cheaply and without side effects.
func (d *driver) glance() {
	if got := d.f.HasSynced(); got != d.m.synced {
		d.fail("HasSynced is %v, want %v", got, d.m.synced)
	}
	select {
	case <-d.f.Synced():
		if !d.m.synced {
			d.fail("Synced is closed too early")
		}
	default:
		if d.m.synced {
			d.fail("Synced is still open")
		}
	}
}

// look compares everything that can be read without popping.
func (d *driver) look() {
	d.note("look")
	keys := d.m.keys()
	if got := d.f.Keys(); !slices.Equal(got, keys) {
		d.fail("Keys are %v, want %v", got, keys)
	}
	if got := d.f.Len(); got != len(keys) {
		d.fail("Len is %v, want %v", got, len(keys))
	}
	var newest []*thing
	for _, key := range keys {
		e, _ := last(d.m.pending, key)
		newest = append(newest, e.Value.Object)
	}
	if got := d.f.List(); !slices.Equal(got, newest) {
		d.fail("List is %v, want %v", got, newest)
	}
	some := d.keys
	if len(some) > 10 {
		first := d.c.choose("first", len(some)-4)
		some = some[first : first+4]
	}
	for _, key := range some {
		want := d.m.get(key)
		got, ok := d.f.Get(key)
		if ok != (len(want) > 0) || show(got) != show(want) {
			d.fail("Get(%v) is\n%swant\n%s", key, show(got), show(want))
		}
		for _, e := range slices.Concat(d.m.pending, d.m.flight) {
			if e.Value.Object != nil && e.Key == key {
				d.heldAgrees(e.Value.Object)
			}
		}
		if o, ok := d.held.Get(key); ok {
			d.heldAgrees(o)
		}
	}
}

var (
	errPlain = errors.New("plain")
	errPanic = errors.New("panic")
)

// outcome is how a process function ends, and whether it has applied the changes.
type outcome struct {
	err     error
	applies bool
}

var outcomes = []outcome{{nil, true}, {nil, true}, {nil, true}, {errPlain, true}, {errPlain, false},
	{delta.Requeue(errPlain), false}, {delta.ErrRequeue, false}, {errPanic, false}}

// process is a consumer; producers run before and after it applies the changes.
func (d *driver) process(deltas []object.Change[*thing]) error {
	end := outcomes[d.c.choose("outcome", len(outcomes))]
	d.note("… in flight, will end with %v, apply %v", end.err, end.applies)
	d.losing = end.err == errPlain && !end.applies
	d.lossy = d.lossy || d.losing
	defer func() { d.losing = false }()
	d.glance()
	for range d.c.choose("events before applying", 3) {
		d.produce()
	}
	if end.applies {
		d.held.apply(deltas)
	}
	d.note("… applied %v", end.applies)
	for range d.c.choose("events after applying", 3) {
		d.produce()
	}
	if end.err == errPanic {
		panic(errPanic)
	}
	return end.err
}

// consume runs a pop whose process function may panic, and returns how it ended.
func (d *driver) consume(pop func(ctx context.Context) error) (back bool) {
	var err error
	func() {
		defer func() {
			if r := recover(); r == errPanic {
				err = errPanic
			} else if r != nil {
				panic(r)
			}
		}()
		err = pop(context.Background())
	}()
	if err != nil && !errors.Is(err, errPlain) && !errors.Is(err, errPanic) && !errors.Is(err, delta.ErrRequeue) {
		d.fail("popping failed: %v", err)
	}
	return errors.Is(err, delta.ErrRequeue) || errors.Is(err, errPanic)
}

func (d *driver) pop() {
	if len(d.m.pending) == 0 {
		return
	}
	d.note("Pop …")
	back := d.consume(func(ctx context.Context) error {
		return d.f.Pop(ctx, func(got delta.Deltas[*thing], initial bool) error {
			// The pop itself may complete the sync, so HasSynced is read before it.
			want := d.m.pop()
			if show(got) != show(want) || initial == d.m.synced {
				d.fail("popped, initial %v,\n%swant, initial %v,\n%s", initial, show(got), !d.m.synced, show(want))
			}
			err := d.process(got)
			if show(got) != show(want) {
				d.fail("what is in flight changed to\n%sfrom\n%s", show(got), show(want))
			}
			return err
		})
	})
	d.m.finish(back)
	d.note("… popped, put back %v", back)
	d.glance()
}

// putBack requeues something with AddIfAbsent.
func (d *driver) putBack() {
	key := d.key()
	var deltas delta.Deltas[*thing]
	for range 1 + d.c.choose("deltas", 2) {
		o := d.thing()
		o.key = key
		t := []object.Kind{object.Added, object.Updated, object.Deleted}[d.c.choose("type", 3)]
		deltas = append(deltas, changeOf(t, o))
	}
	if len(deltas) == 2 && deltas[0].Kind == object.Deleted {
		deltas[0].Unknown = d.c.choose("unknown", 2) == 1
	}
	d.note("AddIfAbsent %v", show(deltas))
	_, pending := last(d.m.pending, key)
	d.ok(d.f.AddIfAbsent(deltas))
	d.m.addIfAbsent(deltas)
	if !pending {
		c := cache{m: d.expected}
		c.apply(deltas)
	}
	d.glance()
}

// drain pops everything and compares what the consumer then holds.
func (d *driver) drain() {
	d.look()
	d.note("drain")
	for len(d.m.pending) > 0 {
		d.ok(d.f.Pop(context.Background(), func(got delta.Deltas[*thing], _ bool) error {
			if want := d.m.pop(); show(got) != show(want) {
				d.fail("popped\n%swant\n%s", show(got), show(want))
			}
			d.held.apply(got)
			return nil
		}))
		d.m.finish(false)
		d.glance()
	}
	if got, want := stateOf(d.held.m), stateOf(d.expected); d.m.known != nil && !d.lossy && got != want {
		d.fail("the consumer holds %v, want %v", got, want)
	}
}
