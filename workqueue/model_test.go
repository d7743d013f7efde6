package workqueue_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

type item = workqueue.Item[string]

// waiter is a waiting item of the model, or one that will wait again after Done.
type waiter struct {
	item
	arrival int       // order in which it started to wait
	lane    int       // the same within its lane
	since   time.Time // when a worker could first take it
}

// model is a simple reference queue: slices and linear searches.
type model struct {
	group   func(string) string
	age     time.Duration
	timed   bool
	from    time.Time
	waiting []*waiter
	dirty   map[string]*waiter
	running []item
	delayed map[string]item
	rounds  map[int][]string // the groups of each priority, the next first
	byAge   bool
	clock   int
	closed  bool
	dropped []item
	adds    uint64
	retries uint64
}

func newModel(group func(string) string, age time.Duration, timed bool) *model {
	return &model{group: group, age: age, timed: timed,
		dirty: map[string]*waiter{}, delayed: map[string]item{}, rounds: map[int][]string{}}
}

func (m *model) tick() int { m.clock++; return m.clock }

func (m *model) find(key string) *waiter {
	for _, s := range m.waiting {
		if s.Key == key {
			return s
		}
	}
	return m.dirty[key]
}

func (m *model) runningAt(key string) int {
	return slices.IndexFunc(m.running, func(i item) bool { return i.Key == key })
}

// name records the use of a priority: from then on the queue records times.
func (m *model) name(priority int, key string) {
	if (priority != 0 || m.group(key) != "") && !m.timed && m.age > 0 {
		m.timed, m.from = true, time.Now()
	}
}

func (m *model) stamp() time.Time {
	if m.timed {
		return time.Now()
	}
	return time.Time{}
}

func (m *model) refuse(key string, priority int, r workqueue.Reason) {
	m.dropped = append(m.dropped, item{Key: key, State: workqueue.Refused, Reason: r, Priority: priority})
}

func (m *model) add(key string, priority int, r workqueue.Reason) {
	m.name(priority, key)
	m.admit(key, priority, r, m.stamp())
}

func (m *model) admit(key string, priority int, r workqueue.Reason, since time.Time) {
	if s := m.find(key); s != nil {
		if priority > s.Priority {
			waits := m.dirty[key] == nil
			was := s.Priority
			s.Priority, s.Reason, s.lane = priority, r, m.tick()
			if waits {
				m.leaveRound(was, m.group(key))
				m.joinRound(priority, m.group(key))
			}
		}
		return
	}
	m.adds++
	s := &waiter{item: item{Key: key, Priority: priority, Reason: r, Since: since}}
	if m.runningAt(key) >= 0 {
		m.dirty[key] = s
	} else {
		m.wait(s, since)
	}
}

func (m *model) wait(s *waiter, since time.Time) {
	s.arrival, s.lane, s.since = m.tick(), m.tick(), since
	m.waiting = append(m.waiting, s)
	m.joinRound(s.Priority, m.group(s.Key))
}

func (m *model) joinRound(priority int, group string) {
	if !slices.Contains(m.rounds[priority], group) {
		m.rounds[priority] = append(m.rounds[priority], group)
	}
}

// leaveRound removes a group from a round unless it still has items there.
func (m *model) leaveRound(priority int, group string) {
	for _, s := range m.waiting {
		if s.Priority == priority && m.group(s.Key) == group {
			return
		}
	}
	m.rounds[priority] = slices.DeleteFunc(m.rounds[priority], func(g string) bool { return g == group })
}

func (m *model) addAfter(key string, d time.Duration, priority int, inherit bool, r workqueue.Reason) {
	if m.closed {
		m.refuse(key, priority, r)
		return
	}
	m.retries++
	if at := m.runningAt(key); inherit && at >= 0 {
		priority = m.running[at].Priority
	} else {
		m.name(priority, key)
	}
	if d <= 0 {
		m.admit(key, priority, r, m.stamp())
		return
	}
	due := time.Now().Add(d)
	was, ok := m.delayed[key]
	switch {
	case !ok:
		was = item{Key: key, Due: due, Priority: priority, Reason: r}
	case priority > was.Priority, priority == was.Priority && due.Before(was.Due):
		was.Priority, was.Reason = priority, r
	}
	if due.Before(was.Due) {
		was.Due = due
	}
	m.delayed[key] = was
}

// fire moves the items that are due by then, each at its own time.
func (m *model) fire(until time.Time) {
	for _, d := range m.byDue() {
		if d.Due.After(until) {
			return
		}
		delete(m.delayed, d.Key)
		since := d.Due
		if !m.timed {
			since = time.Time{}
		}
		m.admit(d.Key, d.Priority, d.Reason, since)
	}
}

func (m *model) byDue() []item {
	return slices.SortedFunc(maps.Values(m.delayed), func(a, b item) int { return a.Due.Compare(b.Due) })
}

func (m *model) get() string {
	top := slices.MaxFunc(m.waiting, func(a, b *waiter) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	group := m.rounds[top][0]
	var next *waiter
	for _, s := range m.waiting {
		if s.Priority == top && m.group(s.Key) == group && (next == nil || s.lane < next.lane) {
			next = s
		}
	}
	oldest := slices.MinFunc(m.waiting, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	since := oldest.since
	if since.Before(m.from) {
		since = m.from
	}
	switch {
	case next == oldest:
		m.byAge = true
		m.rounds[top] = append(m.rounds[top][1:], group)
	case !m.byAge && m.age > 0 && m.timed && time.Since(since) >= m.age:
		m.byAge = true
		next = oldest
	default:
		m.byAge = false
		m.rounds[top] = append(m.rounds[top][1:], group)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(s *waiter) bool { return s == next })
	m.leaveRound(next.Priority, m.group(next.Key))
	taken := next.item
	taken.Since = m.stamp()
	m.running = append(m.running, taken)
	return taken.Key
}

func (m *model) done(key string) {
	at := m.runningAt(key)
	if at < 0 {
		return
	}
	m.running = slices.Delete(m.running, at, at+1)
	if s := m.dirty[key]; s != nil {
		delete(m.dirty, key)
		m.wait(s, m.stamp())
	}
}

func (m *model) shutDown() {
	if m.closed {
		return
	}
	m.closed = true
	for _, d := range m.byDue() {
		d.State = workqueue.Delayed
		m.dropped = append(m.dropped, d)
	}
	clear(m.delayed)
}

// snapshot returns the snapshot that the queue should have.
func (m *model) snapshot() workqueue.Snapshot[string] {
	s := workqueue.Snapshot[string]{Waiting: []item{}, Dirty: []item{}, Processing: []item{}, Delayed: []item{}}
	for _, w := range m.waiting {
		w.State = workqueue.Waiting
		s.Waiting = append(s.Waiting, w.item)
	}
	for i := range m.running {
		r := &m.running[i]
		r.State = workqueue.Processing
		if r.Since.IsZero() {
			r.Since = time.Now() // the first snapshot sets it
		}
		s.Processing = append(s.Processing, *r)
		if a := m.dirty[r.Key]; a != nil {
			a.State = workqueue.Dirty
			s.Dirty = append(s.Dirty, a.item)
		}
	}
	for _, d := range m.byDue() {
		d.State = workqueue.Delayed
		s.Delayed = append(s.Delayed, d)
	}
	return s
}
