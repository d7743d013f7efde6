package leader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// ledger is every write to the jobs that the server has taken, as a watch shows them.
type ledger struct {
	mu      sync.Mutex                // guards what follows
	writers map[string]map[int]string // by key and number
	wrong   []string
}

// watch follows the jobs from a version on until the context is done. The server ends each
// watch after some time.
func (l *ledger) watch(ctx context.Context, clients *kubernetes.Clientset, namespace, version string) error {
	for ctx.Err() == nil {
		w, err := clients.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version, LabelSelector: "job=yes"})
		if err == nil {
			version, err = l.follow(w, version)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the watch of the test itself: %w", err)
		}
	}
	return nil
}

// follow reads a watch to its end and returns up to where.
func (l *ledger) follow(w watch.Interface, version string) (string, error) {
	defer w.Stop()
	for e := range w.ResultChan() {
		job, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			return version, fmt.Errorf("%s: %v", e.Type, e.Object)
		}
		version = job.ResourceVersion
		l.take(job.Name, job.Data["count"], job.Data["by"])
	}
	return version, nil
}

func (l *ledger) take(key, number, by string) {
	if number == "" {
		return // no replica has worked on it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	count, err := strconv.Atoi(number)
	if err != nil {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %v", key, err))
		return
	}
	all := l.writers[key]
	if all == nil {
		all = map[int]string{}
		l.writers[key] = all
	}
	switch who, ok := all[count]; {
	case ok && who != by:
		l.wrong = append(l.wrong, fmt.Sprintf("%s: write %d is by %s and by %s", key, count, who, by))
	case !ok && count != len(all)+1:
		l.wrong = append(l.wrong, fmt.Sprintf("%s: write %d by %s after %d writes", key, count, by, len(all)))
	}
	all[count] = by
}

// writer returns the replica that made a write; empty if there was none.
func (l *ledger) writer(key string, count int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writers[key][count]
}

// found returns how many writes there were and what was wrong with them.
func (l *ledger) found() (writes int, wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.writers {
		writes += len(all)
	}
	return writes, l.wrong
}

// verdict is what the journal of all replicas comes to.
type verdict struct {
	reconciles, writes, terms int
	conflicts, unheard        int // writes that were refused, and whose result is unknown
	inFlight                  int // begun before a pause, noted after it
	wrong                     []string
}

// judge looks for work that began after a deadline or while another replica worked.
func judge(of map[*process][]line) verdict {
	var v verdict
	type term struct {
		by          *process
		first, last line // of what began in it
	}
	var terms []*term
	for p, lines := range of {
		var now *term
		for _, l := range lines {
			switch l.What {
			case led:
				now = nil
				v.terms++
				continue
			case reconciled:
				v.reconciles++
			case writing:
				v.writes++
			case wrote:
				switch l.How {
				case conflict:
					v.conflicts++
				case "", notLeader:
				default:
					v.unheard++
				}
				continue
			default:
				continue
			}
			switch {
			case !l.Asked.Before(l.Deadline):
				v.wrong = append(v.wrong, fmt.Sprintf("%s: %s %s at %s: the fence let it happen %v after the deadline",
					p.identity, l.What, l.Key, stamp(l.At), l.Asked.Sub(l.Deadline)))
			case !l.At.Before(l.Deadline) && p.pausedIn(l.Asked, l.At):
				v.inFlight++
			case !l.At.Before(l.Deadline):
				v.wrong = append(v.wrong, fmt.Sprintf("%s: %s %s at %s, %v after the deadline, and it was not paused",
					p.identity, l.What, l.Key, stamp(l.At), l.At.Sub(l.Deadline)))
			}
			if now == nil {
				now = &term{by: p, first: l}
				terms = append(terms, now)
			}
			now.last = l
		}
	}
	// The question to the fence was answered at some time between Asked and At. Only what is
	// certain counts.
	slices.SortFunc(terms, func(a, b *term) int { return a.first.At.Compare(b.first.At) })
	for i := 1; i < len(terms); i++ {
		for _, before := range terms[:i] {
			if before.by != terms[i].by && before.last.Asked.After(terms[i].first.At) {
				v.wrong = append(v.wrong, fmt.Sprintf("%s was let work at %s, though %s had worked at %s",
					before.by.identity, stamp(before.last.Asked), terms[i].by.identity, stamp(terms[i].first.At)))
			}
		}
	}
	slices.SortFunc(v.wrong, cmp.Compare[string])
	return v
}

func stamp(t time.Time) string { return t.Format("15:04:05.000000") }

// pausedIn reports whether the process was paused at some time between two others.
func (p *process) pausedIn(from, to time.Time) bool {
	return slices.ContainsFunc(p.pauses, func(s span) bool {
		return s.from.Before(to) && (s.to.IsZero() || s.to.After(from))
	})
}

func TestTheJudgeFindsWorkThatMustNotBe(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	did := func(asked, began, deadline int) line {
		return line{What: reconciled, Key: "k", Asked: at(asked), At: at(began), Deadline: at(deadline)}
	}
	for name, c := range map[string]struct {
		a, b            []line
		paused          []span // of a
		inFlight, wrong int
	}{
		"one after the other":    {a: []line{did(1, 1, 5), did(2, 2, 6)}, b: []line{did(7, 7, 11)}},
		"after the deadline":     {a: []line{did(6, 6, 5)}, wrong: 1},
		"late without a pause":   {a: []line{did(4, 6, 5)}, wrong: 1},
		"late because of one":    {a: []line{did(4, 8, 5)}, paused: []span{{at(4), at(8)}}, inFlight: 1},
		"paused at another time": {a: []line{did(4, 8, 5)}, paused: []span{{at(1), at(2)}}, wrong: 1},
		"both at a time":         {a: []line{did(1, 1, 5), did(4, 4, 8)}, b: []line{did(3, 3, 7)}, wrong: 1},
		"and again":              {a: []line{did(1, 1, 5), {What: lost}, {What: led}, did(9, 9, 12)}, b: []line{did(6, 6, 9)}},
	} {
		a, b := &process{identity: "a", pauses: c.paused}, &process{identity: "b"}
		v := judge(map[*process][]line{a: c.a, b: c.b})
		if v.inFlight != c.inFlight || len(v.wrong) != c.wrong {
			t.Errorf("%s: %d in flight, wrong: %q; want %d and %d", name, v.inFlight, v.wrong, c.inFlight, c.wrong)
		}
	}
}

func TestTheLedgerFindsLostWrites(t *testing.T) {
	l := &ledger{writers: map[string]map[int]string{}}
	l.take("k", "", "")
	l.take("k", "1", "a")
	l.take("k", "1", "a") // another writer changed something else
	l.take("k", "2", "b")
	if n, wrong := l.found(); n != 2 || len(wrong) != 0 {
		t.Errorf("%d writes, wrong: %q", n, wrong)
	}
	l.take("k", "2", "a")
	l.take("k", "5", "a")
	if _, wrong := l.found(); len(wrong) != 2 {
		t.Errorf("wrong: %q; want an overwritten and a missing write", wrong)
	}
}
