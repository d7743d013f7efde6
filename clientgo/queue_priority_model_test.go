package clientgo_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// ranked is an item of the model of a queue with priorities.
type ranked struct {
	item     string
	priority int
	order    int       // since it has this priority
	due      time.Time // of one that is delayed
}

// rankedModel is a queue with priorities that is plain to see: of what waits, that of the
// highest priority is taken, and of those the one that has waited at it for longest. An
// item has the highest of the priorities that it was added with since it was last taken,
// and the earliest of its due times; one that is added while it is processed waits from
// Done on.
type rankedModel struct {
	clock          int
	waiting, again map[string]*ranked
	delayed        map[string]*ranked
	running        map[string]int // with which priority
}

func (m *rankedModel) add(item string, priority int) {
	m.clock++
	at := m.waiting
	if _, ok := m.running[item]; ok {
		at = m.again
	}
	if r, ok := at[item]; !ok || priority > r.priority {
		at[item] = &ranked{item: item, priority: priority, order: m.clock}
	}
}

func (m *rankedModel) delay(item string, priority int, due time.Time) {
	r, ok := m.delayed[item]
	if !ok {
		m.delayed[item] = &ranked{item: item, priority: priority, due: due}
		return
	}
	r.priority = max(r.priority, priority)
	if due.Before(r.due) {
		r.due = due
	}
}

// pass lets what is due wait.
func (m *rankedModel) pass() {
	for _, r := range slices.SortedFunc(maps.Values(m.delayed), func(a, b *ranked) int { return a.due.Compare(b.due) }) {
		if !r.due.After(time.Now()) {
			delete(m.delayed, r.item)
			m.add(r.item, r.priority)
		}
	}
}

func (m *rankedModel) get() (item string, priority int) {
	r := slices.MinFunc(slices.Collect(maps.Values(m.waiting)), func(a, b *ranked) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.order, b.order))
	})
	delete(m.waiting, r.item)
	m.running[r.item] = r.priority
	return r.item, r.priority
}

func (m *rankedModel) done(item string) {
	delete(m.running, item)
	if r, ok := m.again[item]; ok {
		delete(m.again, item)
		m.add(item, r.priority)
	}
}

// inBubble is a test without a deadline, which bubbles do not have.
type inBubble struct{ testing.TB }

func TestAQueueWithPrioritiesBehavesAsAPlainModelDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPriorityQueue(t, nil)
		defer q.ShutDown()
		unique := time.Duration(0) // so that no two due times are equal
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			m := &rankedModel{waiting: map[string]*ranked{}, again: map[string]*ranked{}, delayed: map[string]*ranked{}, running: map[string]int{}}
			items := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
			priorities := rapid.SampledFrom([]int{-100, -1, 0, 0, 1, 7})
			take := func() {
				want, of := m.get()
				item, priority, shutdown := q.GetWithPriority()
				if item != want || priority != of || shutdown {
					t.Fatalf("GetWithPriority = %q, %d, %v; the model has %q, %d", item, priority, shutdown, want, of)
				}
			}
			done := func(item string) {
				q.Done(item)
				m.done(item)
			}
			// Due times are just after a multiple of grid, and looks well after them: ours
			// may be late (DQ1).
			wait := func(n int) {
				<-time.After(time.Until(time.Now().Truncate(grid).Add(time.Duration(n)*grid + grid/2)))
				synctest.Wait()
				m.pass()
			}
			wait(1)
			t.Repeat(map[string]func(*rapid.T){
				"add": func(t *rapid.T) {
					item, priority := items.Draw(t, "item"), priorities.Draw(t, "priority")
					q.AddWithOpts(addOpts{Priority: &priority}, item)
					m.add(item, priority)
				},
				"plain add": func(t *rapid.T) {
					item := items.Draw(t, "item")
					q.Add(item)
					m.add(item, 0)
				},
				"add after": func(t *rapid.T) {
					item, priority := items.Draw(t, "item"), priorities.Draw(t, "priority")
					unique = (unique + time.Nanosecond) % time.Microsecond
					due := time.Now().Truncate(grid).Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "ticks"))*grid + unique)
					q.AddWithOpts(addOpts{Priority: &priority, After: time.Until(due)}, item)
					m.delay(item, priority, due)
				},
				"take": func(t *rapid.T) {
					if len(m.waiting) == 0 {
						t.Skip("nothing waits")
					}
					take()
				},
				"done": func(t *rapid.T) {
					if len(m.running) == 0 {
						t.Skip("nothing is processed")
					}
					done(rapid.SampledFrom(slices.Sorted(maps.Keys(m.running))).Draw(t, "item"))
				},
				"wait": func(t *rapid.T) { wait(rapid.IntRange(1, 3).Draw(t, "ticks")) },
				"": func(t *rapid.T) {
					if q.Len() != len(m.waiting) {
						t.Fatalf("%d wait, in the model %d", q.Len(), len(m.waiting))
					}
				},
			})
			for len(m.waiting)+len(m.running)+len(m.delayed) > 0 { // for the next history
				for item := range maps.Clone(m.running) {
					done(item)
				}
				if len(m.waiting) > 0 {
					take()
				} else if len(m.delayed) > 0 {
					wait(1)
				}
			}
		})
	})
}
