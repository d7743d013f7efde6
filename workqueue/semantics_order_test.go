package workqueue_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

func TestK05_HigherPrioritiesAreTakenFirst(t *testing.T) {
	q := workqueue.New(options{})
	q.Add("normal")
	q.AddWith(workqueue.Request{Priority: -5}, "low1", "low2", "raised")
	q.AddWith(workqueue.Request{Priority: 5}, "high")
	q.AddWith(workqueue.Request{Priority: 7}, "raised")
	q.AddWith(workqueue.Request{Priority: 1}, "raised") // keeps the higher priority
	q.Add("normal2")
	want(t, "taken", getAll(t, q), []string{"raised", "high", "normal", "normal2", "low1", "low2"})
}

func TestK05_ARetryKeepsItsPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		q.AddWith(workqueue.Request{Priority: -5}, "low")
		get(t, q)
		q.AddAfter("low", time.Second)
		q.Done("low")
		want(t, "priority", q.Inspect("low")[0].Priority, -5)
		advance(time.Second)
		q.Add("normal")
		want(t, "taken", get(t, q), "normal")
		want(t, "taken", get(t, q), "low")
		q.AddRateLimited("low")
		q.Add("low") // a new change has normal priority
		q.Done("low")
		want(t, "priority", q.Inspect("low")[0].Priority, 0)
		q.ShutDown()
	})
}

// While urgent items keep arriving, waiting items are taken within the bound.
func TestK05_ALowPriorityItemWaitsABoundedTime(t *testing.T) {
	for _, group := range []func(string) string{nil, groupOf} {
		synctest.Test(t, func(t *testing.T) {
			const waiting = 20
			q := workqueue.New(options{AgeAfter: time.Second, Group: group})
			start := time.Now()
			for i := range waiting {
				q.AddWith(workqueue.Request{Priority: -10}, fmt.Sprintf("low/%d", i))
			}
			gets := map[string]int{}
			for n, urgent := 0, 0; len(gets) < waiting; n++ {
				q.AddWith(workqueue.Request{Priority: 10}, fmt.Sprintf("u%d/%d", n%3, n), fmt.Sprintf("u%d/%da", n%2, n))
				advance(10 * time.Millisecond)
				item := get(t, q)
				q.Done(item)
				if strings.HasPrefix(item, "low") {
					if time.Since(start) < time.Second {
						t.Fatalf("%s was taken after %v", item, time.Since(start))
					}
					gets[item] = urgent
				}
				if time.Since(start) >= time.Second {
					urgent++
				}
			}
			for i := range waiting {
				if got := gets[fmt.Sprintf("low/%d", i)]; got > 2*(i+1) {
					t.Errorf("item %d was taken by the %dth Get", i, got)
				}
			}
		})
	}
}

func TestK05_AgeingCanBeDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{AgeAfter: -1})
		q.AddWith(workqueue.Request{Priority: -1}, "low")
		for i := range 100 {
			q.Add(fmt.Sprint(i))
			advance(time.Hour)
			want(t, "taken", get(t, q), fmt.Sprint(i))
		}
		want(t, "since", q.Snapshot().Waiting[0].Since, time.Time{})
	})
}

// Items that were waiting when a priority was first used age from that moment.
func TestK05_AgeCountsFromTheFirstUseOfAPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{AgeAfter: time.Minute})
		q.Add("old")
		get(t, q)
		q.Add("old")
		q.Add("older")
		advance(time.Hour)
		q.AddWith(workqueue.Request{Priority: 1}, "a", "b", "c", "d")
		q.Done("old")
		want(t, "taken", get(t, q), "a")
		advance(time.Minute)
		want(t, "taken", getAll(t, q), []string{"older", "b", "c", "d", "old"})
	})
}

// No worker could take the item before Done, so its wait starts there.
func TestK05_AnItemAddedWhileProcessingAgesFromDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{AgeAfter: time.Minute})
		q.AddWith(workqueue.Request{Priority: -1}, "low")
		get(t, q)
		added := time.Now()
		q.AddWith(workqueue.Request{Priority: -1}, "low")
		advance(time.Hour)
		q.Done("low")
		want(t, "since", q.Inspect("low")[0].Since, added)
		q.AddWith(workqueue.Request{Priority: 1}, "a", "b", "c", "d")
		want(t, "taken", get(t, q), "a")
		want(t, "taken", get(t, q), "b")
		advance(time.Minute)
		want(t, "taken", getAll(t, q), []string{"low", "c", "d"})
	})
}

func TestK05_GroupsTakeTurns(t *testing.T) {
	q := workqueue.New(options{Group: groupOf})
	for i := range 4 {
		q.Add(fmt.Sprintf("big/%d", i))
	}
	q.Add("small/0")
	q.AddWith(workqueue.Request{}, "tiny/0", "small/1")
	q.AddWith(workqueue.Request{Priority: 1}, "big/9")
	want(t, "taken", getAll(t, q), []string{"big/9", "big/0", "small/0", "tiny/0", "big/1", "small/1", "big/2", "big/3"})
}

type figures struct {
	sync.Mutex
	added, retried, dropped int
	calls                   int // of Added
	waited, worked          []time.Duration
}

func (f *figures) locked(change func()) {
	f.Lock()
	defer f.Unlock()
	change()
}

func (f *figures) Added(n int)            { f.locked(func() { f.added += n; f.calls++ }) }
func (f *figures) Retried(n int)          { f.locked(func() { f.retried += n }) }
func (f *figures) Dropped(n int)          { f.locked(func() { f.dropped += n }) }
func (f *figures) Waited(d time.Duration) { f.locked(func() { f.waited = append(f.waited, d) }) }
func (f *figures) Worked(d time.Duration) { f.locked(func() { f.worked = append(f.worked, d) }) }

func TestK06_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &figures{}
		q := workqueue.New(options{Metrics: f})
		q.Add("a")
		q.Add("a")
		q.AddWith(workqueue.Request{}, "b", "c")
		want(t, "stats", q.Stats(), workqueue.Stats{Waiting: 3, Adds: 3})
		advance(time.Second)
		get(t, q)
		get(t, q)
		advance(2 * time.Second)
		q.Add("a") // its time in the queue starts here
		want(t, "stats", q.Stats(), workqueue.Stats{
			Waiting: 1, Dirty: 1, Processing: 2, Adds: 4, Unfinished: 4 * time.Second, Longest: 2 * time.Second,
		})
		advance(3 * time.Second)
		q.Done("a")
		q.Done("b")
		q.Done("c")
		q.AddAfter("d", time.Second)
		q.AddRateLimited("e")
		q.AddAfter("f", 0)
		advance(time.Second)
		q.AddAfter("g", time.Second)
		q.ShutDown()
		q.Add("h")
		want(t, "taken", getAll(t, q), []string{"c", "a", "f", "e", "d"})
		s := time.Second
		want(t, "figures", f, &figures{
			added: 7, retried: 4, dropped: 2, calls: 6,
			waited: []time.Duration{s, s, 7 * s, 4 * s, s, s - 5*time.Millisecond, 0},
			worked: []time.Duration{5 * s, 5 * s, 0, 0, 0, 0, 0},
		})
		want(t, "stats", q.Stats(), workqueue.Stats{Adds: 7, Retries: 4, Dropped: 2})
	})
}

func TestK07_AnItemThatIsNeverDoneIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, opts := range []options{{}, {Times: true}} {
			q := workqueue.New(opts)
			want(t, "any", len(q.Snapshot().Processing), 0)
			q.AddWith(workqueue.Request{}, "a", "stuck", "b")
			get(t, q)
			get(t, q)
			get(t, q)
			q.Done("a")
			first := q.Snapshot().Processing[0]
			want(t, "longest", first.Key, "stuck")
			want(t, "state", first.State, workqueue.Processing)
			want(t, "since", first.Since, time.Now())
			advance(time.Hour)
			want(t, "longest", q.Snapshot().Processing[0], first)
			want(t, "for how long", q.Stats().Longest, time.Hour)
			want(t, "in all", q.Stats().Unfinished, 2*time.Hour)
		}
	})
}

func TestInspectShowsEveryStateOfAnItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{Times: true})
		want(t, "unknown", q.Inspect("a"), []item(nil))
		start := time.Now()
		q.Add("a")
		want(t, "waiting", q.Inspect("a"), []item{{Key: "a", State: workqueue.Waiting, Since: start}})
		advance(time.Second)
		get(t, q)
		advance(time.Second)
		q.AddAfter("a", time.Hour)
		q.AddAfter("a", 0)
		want(t, "in three states", q.Inspect("a"), []item{
			{Key: "a", State: workqueue.Processing, Since: start.Add(time.Second)},
			{Key: "a", State: workqueue.Dirty, Reason: workqueue.AddedAfter, Since: start.Add(2 * time.Second)},
			{Key: "a", State: workqueue.Delayed, Reason: workqueue.AddedAfter, Due: start.Add(2*time.Second + time.Hour)},
		})
		q.ShutDown()
		want(t, "names", fmt.Sprint(workqueue.Dirty, workqueue.AddedRateLimited, workqueue.State(9), workqueue.Reason(9)),
			"dirty rate-limited State(9) Reason(9)")
	})
}
