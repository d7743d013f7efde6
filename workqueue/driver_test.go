package workqueue_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/workqueue"
)

// chooser supplies the driver's decisions: rapid, a seed, or a fuzzer's bytes.
type chooser interface {
	Helper()
	Fatalf(format string, args ...any)
	choose(what string, n int) int
}

// driver applies the same calls to a queue and to the model and compares them. It needs a synctest
// bubble. Delays are whole milliseconds and no two items are due at the same time, so the order
// of due items is deterministic.
type driver struct {
	c       chooser
	q       *workqueue.Queue[string]
	m       *model
	keys    []string
	limit   time.Duration // the limiter's next delay
	dropped []item
	trace   []string
}

// chosen is a limiter whose delays the driver chooses.
type chosen driver

func (c *chosen) When(string) time.Duration { return c.limit }
func (c *chosen) Forget(string)             {}
func (c *chosen) NumRequeues(string) int    { return 0 }

func groupOf(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

func newDriver(c chooser, keys []string) *driver {
	d := &driver{c: c, keys: keys}
	opts := workqueue.Options[string]{
		Limiter: (*chosen)(d),
		Dropped: func(i item) { d.dropped = append(d.dropped, i) },
	}
	group := func(string) string { return "" }
	if c.choose("groups", 2) == 1 {
		opts.Group, group = groupOf, groupOf
	}
	opts.Times = c.choose("times", 3) == 2
	opts.AgeAfter = []time.Duration{-1, time.Second, 0}[c.choose("ageing", 3)]
	age := opts.AgeAfter
	if age == 0 {
		age = workqueue.DefaultAgeAfter
	}
	d.q = workqueue.New(opts)
	d.m = newModel(group, max(0, age), opts.Times)
	return d
}

func (d *driver) fail(format string, args ...any) {
	d.c.Helper()
	d.c.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(d.trace, "\n"))
}

func (d *driver) note(format string, args ...any) {
	d.trace = append(d.trace, fmt.Sprintf(format, args...))
}

func (d *driver) key() string { return d.keys[d.c.choose("key", len(d.keys))] }

// delay returns a delay at whose end no other item is due.
func (d *driver) delay() time.Duration {
	ms := time.Duration(d.c.choose("delay", 12)-1) * time.Duration(1+700*d.c.choose("long", 2)) * time.Millisecond
	for ms > 0 && slices.ContainsFunc(d.m.byDue(), func(i item) bool { return i.Due.Equal(time.Now().Add(ms)) }) {
		ms += time.Millisecond
	}
	return ms
}

func (d *driver) step() {
	switch d.c.choose("step", 16) {
	case 0, 1, 2:
		key := d.key()
		d.note("Add %s", key)
		d.q.Add(key)
		if d.m.closed {
			d.m.refuse(key, 0, workqueue.Added)
		} else {
			d.m.add(key, 0, workqueue.Added)
		}
	case 3, 4:
		d.addWith()
	case 5:
		key := d.key()
		d.limit = d.delay()
		d.note("AddRateLimited %s %v", key, d.limit)
		d.q.AddRateLimited(key)
		d.m.addAfter(key, d.limit, 0, true, workqueue.AddedRateLimited)
	case 6:
		key, delay := d.key(), d.delay()
		d.note("AddAfter %s %v", key, delay)
		d.q.AddAfter(key, delay)
		d.m.addAfter(key, delay, 0, true, workqueue.AddedAfter)
	case 7, 8, 9, 10:
		d.get()
	case 11, 12, 13:
		d.done()
	case 14:
		d.advance(time.Duration(1+d.c.choose("time", 30)) * time.Duration(1+200*d.c.choose("long", 3)) * time.Millisecond)
	case 15:
		if d.c.choose("shut down", 12) == 11 {
			d.note("ShutDown")
			d.q.ShutDown()
			d.m.shutDown()
		} else {
			d.note("Shrink")
			d.q.Shrink()
		}
	}
	d.check()
}

func (d *driver) addWith() {
	how := workqueue.Request{Priority: d.c.choose("priority", 4) - 1}
	var keys []string
	for range 1 + d.c.choose("several", 3) {
		keys = append(keys, d.key())
	}
	switch d.c.choose("later", 4) {
	case 2:
		how.After, keys = d.delay(), keys[:1]
	case 3:
		d.limit, how.RateLimited, keys = d.delay(), true, keys[:1]
	}
	d.note("AddWith %+v %v", how, keys)
	d.q.AddWith(how, keys...)
	for _, key := range keys {
		switch {
		case how.RateLimited:
			d.m.addAfter(key, d.limit, how.Priority, false, workqueue.AddedRateLimited)
		case how.After > 0:
			d.m.addAfter(key, how.After, how.Priority, false, workqueue.AddedAfter)
		case d.m.closed:
			d.m.refuse(key, how.Priority, workqueue.Added)
		default:
			d.m.add(key, how.Priority, workqueue.Added)
		}
	}
}

// get takes an item, waiting up to 20 ms for one.
func (d *driver) get() {
	start := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(20*time.Millisecond))
	defer cancel()
	got, err := d.q.GetContext(ctx)
	d.note("Get %q %v", got, err)
	synctest.Wait() // for a timer
	now := time.Now()
	if now.After(start) { // it had to wait
		d.m.fire(now.Add(-1))
		if len(d.m.waiting) > 0 {
			d.fail("%s could be taken before", d.m.waiting[0].Key)
		}
	}
	d.m.fire(now)
	switch {
	case err == nil:
		if len(d.m.waiting) == 0 {
			d.fail("took %s, want nothing", got)
		}
		d.took(got)
	case errors.Is(err, context.DeadlineExceeded) && now.Sub(start) == 20*time.Millisecond && !d.m.closed:
	case errors.Is(err, workqueue.ErrShutDown) && d.m.closed && now.Equal(start) && len(d.m.waiting) == 0:
	default:
		d.fail("after %v: %v", now.Sub(start), err)
	}
}

func (d *driver) took(got string) {
	if want := d.m.get(); got != want {
		d.fail("took %s, want %s", got, want)
	}
}

// done calls Done for an item that is processed, or occasionally for another one.
func (d *driver) done() {
	key := d.key()
	if n := len(d.m.running); n > 0 && d.c.choose("any", 6) < 5 {
		key = d.m.running[d.c.choose("of", n)].Key
	}
	d.note("Done %s", key)
	d.q.Done(key)
	d.m.done(key)
}

func (d *driver) advance(by time.Duration) {
	d.note("%v pass", by)
	<-time.After(by)
	synctest.Wait()
	d.m.fire(time.Now())
}

func (d *driver) check() {
	want, got := d.m.snapshot(), d.q.Snapshot()
	if !sameItems(want.Waiting, got.Waiting) || !sameItems(want.Dirty, got.Dirty) ||
		!sameItems(want.Processing, got.Processing) || !sameItems(want.Delayed, got.Delayed) {
		d.fail("snapshot, -want +got:\n%s", cmp.Diff(want, got))
	}
	if !sameItems(d.m.dropped, d.dropped) {
		d.fail("dropped, -want +got:\n%s", cmp.Diff(d.m.dropped, d.dropped))
	}
	s := d.q.Stats()
	if s.Waiting != len(want.Waiting) || s.Dirty != len(want.Dirty) || s.Processing != len(want.Processing) ||
		s.Delayed != len(want.Delayed) || s.Adds != d.m.adds || s.Retries != d.m.retries ||
		s.Dropped != uint64(len(d.m.dropped)) || d.q.Len() != len(want.Waiting) || d.q.ShuttingDown() != d.m.closed {
		d.fail("stats %+v do not agree with %+v", s, want)
	}
}

// sameItems is faster than cmp.Diff.
func sameItems(a, b []item) bool {
	return slices.EqualFunc(a, b, func(a, b item) bool {
		return a.Key == b.Key && a.State == b.State && a.Reason == b.Reason && a.Priority == b.Priority &&
			a.Since.Equal(b.Since) && a.Due.Equal(b.Due)
	})
}

// finish drains the queue: every added item is taken.
func (d *driver) finish() {
	d.note("finish")
	d.q.ShutDown()
	d.m.shutDown()
	for len(d.m.waiting)+len(d.m.running) > 0 {
		if len(d.m.waiting) > 0 {
			d.get()
		} else {
			d.q.Done(d.m.running[0].Key)
			d.m.done(d.m.running[0].Key)
		}
		d.check()
	}
	if _, shutdown := d.q.Get(); !shutdown {
		d.fail("not shut down")
	}
}

var fewKeys = []string{"a/1", "a/2", "a/3", "b/1", "b/2", "/1"}

// inBubble runs a test in a bubble without the deadline of t, which bubbles do not support.
type inBubble struct{ testing.TB }

type rapidChooser struct{ *rapid.T }

func (c rapidChooser) choose(what string, n int) int { return rapid.IntRange(0, n-1).Draw(c.T, what) }

// Short histories of few keys, which rapid shrinks when one fails.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			rapid.Check(inBubble{t}, func(t *rapid.T) {
				d := newDriver(rapidChooser{t}, fewKeys)
				t.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { d.step() }})
				d.finish()
			})
		}
	})
}

type randChooser struct {
	testing.TB
	*rand.Rand
}

func (c randChooser) choose(_ string, n int) int { return c.IntN(n) }

// Long histories of many keys and groups, so that pages fill, lanes are removed and the index grows.
func TestModelLong(t *testing.T) {
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("%d/%d", i%90, i))
	}
	for seed := range uint64(soak.Rounds(5)) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDriver(randChooser{t, rand.New(rand.NewPCG(seed, 0))}, keys)
				for range 2500 {
					d.step()
				}
				d.finish()
			})
		})
	}
}

// byteChooser takes decisions from a fuzzer's bytes, and 0 after the last one.
type byteChooser struct {
	testing.TB
	bytes []byte
}

func (c *byteChooser) choose(_ string, n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % n
}

func FuzzQueue(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		var bytes []byte
		for range 60 {
			bytes = binary.LittleEndian.AppendUint64(bytes, r.Uint64())
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) > 1<<11 {
			return // the model is slow
		}
		synctest.Test(t, func(t *testing.T) {
			c := &byteChooser{t, bytes}
			d := newDriver(c, fewKeys)
			for len(c.bytes) > 0 {
				d.step()
			}
			d.finish()
		})
	})
}
