package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// backup returns what brings the server back to where it is now.
func (s server) backup(t *testing.T) (restore func()) {
	t.Helper()
	if s.embedded != nil {
		then := s.embedded.Version()
		return func() { s.embedded.Rewind(int(s.embedded.Version() - then)) }
	}
	snapshot, err := s.plane.Snapshot(patience.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := s.plane.Restore(patience.Context(t), snapshot); err != nil {
			t.Fatal(err)
		}
	}
}

// W19: etcd comes back from a backup, and versions begin again where they were. All clients
// end with the restored state. Neither server notifies open watches, so each watch gets a 410
// once, as from a server that has no history from before its start.
func TestW19_Rewind(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("kept", "0")
		w.create("changed", "0")
		w.create("deleted", "0")
		restore := s.backup(t)
		w.update("changed", "1")
		w.delete("deleted")
		var last *corev1.ConfigMap
		for i := range 200 { // more than the real server writes by itself when it starts
			last = w.create(fmt.Sprint("lost-", i), "0")
		}
		var rewound atomic.Bool
		b := &between{watch: func(_ int, query url.Values) *edit {
			if v := object.Version(query.Get("resourceVersion")); rewound.Load() && !query.Has("sendInitialEvents") && v.Known() && !object.Version(last.ResourceVersion).After(v) {
				return &edit{before: []frame{failure(http.StatusGone, metav1.StatusReasonExpired)}, end: true}
			}
			return nil
		}}
		m := startMirror(t, b.put(s.config), configMaps, plain(s, nil))
		all := startEveryone(t, s, b.put(s.config), m)
		all.same(t, s, m)
		waited := make(chan error, 1)
		go func() { waited <- m.WaitFor(patience.Context(t), "999999998") }()
		rewound.Store(true)
		restore()
		patience.Until(t, "a new epoch", func() bool { return m.reflector().Mark.Epoch == 1 })
		if c := m.reflector().Counts; c.Rewinds != 1 || c.Ended[reflector.Rewind] != 1 {
			t.Errorf("%d rewinds, ended for %v", c.Rewinds, c.Ended)
		}
		all.same(t, s, m)
		for what, cm := range map[string]string{"deleted": "0", "changed": "0", "kept": "0"} {
			if got, ok := m.Get(object.Key{Namespace: s.namespace, Name: what}); !ok || got.Data["value"] != cm {
				t.Errorf("%s is %v", what, got)
			}
		}
		m.receives(t, "delete unknown lost-0")
		// Versions that were given out before are given out again, to something else.
		again := w.create("again", "0")
		m.reaches(t, again)
		all.same(t, s, m)
		if !object.Version(last.ResourceVersion).After(object.Version(again.ResourceVersion)) {
			t.Errorf("the restored server is at %s, past %s: nothing was tested", again.ResourceVersion, last.ResourceVersion)
		}
		if err := <-waited; err != nil {
			t.Errorf("waiting for a version of the old history returned %v", err)
		}
	})
}

// crowd counts the lists that are on their way, and keeps them there from when it is closed
// until the gate opens. Until then watches get a 410.
type crowd struct {
	gate      chan struct{}
	closed    atomic.Bool
	mu        sync.Mutex // guards what follows
	now, most int
}

func (c *crowd) trip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if req.URL.Query().Has("watch") || !c.closed.Load() {
		return next.RoundTrip(req)
	}
	c.add(1)
	defer c.add(-1)
	<-c.gate
	return next.RoundTrip(req)
}

func (c *crowd) watch(int, url.Values) *edit {
	select {
	case <-c.gate:
		return nil
	default:
	}
	if !c.closed.Load() {
		return nil
	}
	return &edit{before: []frame{failure(http.StatusGone, metav1.StatusReasonExpired)}, end: true}
}

func (c *crowd) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

func (c *crowd) counts() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most
}

// W22: the server restarts without history, so all versions have expired. Many mirrors
// reconnect, each after random waits that double, and a limited number lists at once.
func TestW22_ManyComeBack(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		writer{t, s}.create("a", "0")
		const many, atOnce = 6, 2
		budget := reflector.NewBudget(atOnce)
		c := &crowd{gate: make(chan struct{})}
		config := (&between{watch: c.watch}).put(through(s.config, c.trip))
		var mirrors []*mirror[*corev1.ConfigMap]
		for range many {
			m := startMirror(t, config, configMaps, plain(s, func(o *reflector.Options[*corev1.ConfigMap]) {
				o.Budget, o.Backoff = budget, reflector.Backoff{Min: 800 * time.Millisecond} // and the other defaults
			}))
			m.watches(t)
			mirrors = append(mirrors, m)
		}
		c.closed.Store(true)
		waits := [2]map[int]time.Duration{{}, {}} // the first and the second of each
		s.restart(t, func() {
			patience.Until(t, "two waits of each", func() bool {
				for i, m := range mirrors {
					if st := m.reflector(); st.State == reflector.BackingOff && st.Counts.Waits <= 2 {
						waits[st.Counts.Waits-1][i] = st.Until.Sub(st.Since)
					}
				}
				return len(waits[0]) == many && len(waits[1]) == many
			})
		})
		different := map[time.Duration]bool{}
		for n, least := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond} {
			for i, wait := range waits[n] {
				if wait < least || wait >= 2*least {
					t.Errorf("wait %d of mirror %d is %s", n+1, i, wait)
				}
				different[wait.Round(time.Microsecond)] = true
			}
		}
		if len(different) < many {
			t.Errorf("the waits are not random: %v", waits)
		}
		patience.Until(t, "all to be listing", func() bool {
			listing := 0
			for _, m := range mirrors {
				if m.reflector().State == reflector.Listing {
					listing++
				}
			}
			now, _ := c.counts()
			return listing == many && now == atOnce
		})
		close(c.gate)
		for _, m := range mirrors {
			patience.Until(t, "all to be back", func() bool { return m.reflector().Counts.Lists == 2 && m.Status().Live() })
		}
		if _, most := c.counts(); most != atOnce {
			t.Errorf("%d listed at once", most)
		}
	})
}
