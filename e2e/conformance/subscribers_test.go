package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
)

// sluggard is a subscriber that blocks in its first call until it is released, and keeps
// what it has received since.
type sluggard struct {
	*informer.Subscription
	stuck, release chan struct{}
	mu             sync.Mutex // guards received
	received       []informer.Event[*corev1.ConfigMap]
}

func subscribeSluggard(t *testing.T, m *mirror[*corev1.ConfigMap]) *sluggard {
	t.Helper()
	l := &sluggard{stuck: make(chan struct{}), release: make(chan struct{})}
	stick := sync.OnceFunc(func() { close(l.stuck); <-l.release })
	var err error
	l.Subscription, err = m.SubscribeBatch(func(_ context.Context, events []informer.Event[*corev1.ConfigMap]) {
		stick()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.received = append(l.received, events...)
	}, informer.SubOptions[*corev1.ConfigMap]{Name: "sluggard"})
	if err != nil {
		t.Fatal(err)
	}
	<-l.stuck
	return l
}

// about returns the changes of an object: kinds, and values before and after.
func (l *sluggard) about(name string) (changes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.received {
		if e.Key.Name != name {
			continue
		}
		text := strings.ToLower(e.Kind.String())
		if old := e.Old(); old != nil {
			text += " " + old.Data["value"]
		}
		text += ">" + e.New().Data["value"]
		if e.Unknown {
			text += " unknown"
		}
		changes = append(changes, text)
	}
	return changes
}

// H02, H03: one subscriber blocks during many changes. The others do not wait for it, and it
// receives the difference in the end.
func TestH02_H03_StuckSubscribers(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		for _, name := range []string{"changed", "deleted", "replaced", "kept"} {
			w.create(name, "0")
		}
		opts := plain(s, nil)
		opts.log = 4
		m := startMirror(t, s.config, configMaps, opts)
		stuck := subscribeSluggard(t, m)
		const updates = 60
		for i := 1; i <= updates; i++ {
			w.update("changed", fmt.Sprint(i))
		}
		w.create("new", "0")
		w.update("new", "1")
		w.create("brief", "0")
		w.delete("brief")
		w.update("deleted", "1") // which it will not have seen
		w.delete("deleted")
		w.delete("replaced")
		last := w.create("replaced", "1")
		t.Run("H02 the others do not wait for it", func(t *testing.T) {
			m.reaches(t, last)
			// The mirror's own subscriber keeps up and received each of them.
			patience.Until(t, "the other subscriber to receive them", func() bool { return m.times("add replaced") == 2 })
			status := stuck.Status()
			if status.Lag == 0 || status.LagTime <= 0 {
				t.Errorf("the lag does not show: %+v", status)
			}
			if n := m.Status().Logged; n > 10*opts.log {
				t.Errorf("%d changes are kept for it", n)
			}
		})
		close(stuck.release)
		patience.Until(t, "it to be caught up", func() bool { return stuck.Status().CaughtUp > 0 && stuck.Status().Lag == 0 })
		for name, want := range map[string]string{
			"changed":  fmt.Sprintf("[added>0 updated 0>%d]", updates),
			"new":      "[added>1]",
			"brief":    "[]",
			"deleted":  "[added>0 deleted 0>0 unknown]",
			"replaced": "[added>0 deleted 0>0 unknown added>1]",
			"kept":     "[added>0]",
		} {
			t.Run("H03 "+name, func(t *testing.T) {
				if got := fmt.Sprint(stuck.about(name)); got != want {
					t.Errorf("received %s; want %s", got, want)
				}
			})
		}
	})
}

// H04: a subscriber panics.
func TestH04_PanicsCostOneEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("bad", "0")
		w.create("good", "0")
		panics := make(chan *informer.PanicError, 10)
		opts := plain(s, nil)
		opts.onPanic = func(p *informer.PanicError) { panics <- p }
		m := startMirror(t, s.config, configMaps, opts)
		var mu sync.Mutex
		added := map[string]int{}
		sub, err := m.Subscribe(informer.Handler[*corev1.ConfigMap]{OnAdd: func(cm *corev1.ConfigMap, _ bool) {
			if cm.Name == "bad" {
				panic(errors.New("cannot bear it"))
			}
			mu.Lock()
			defer mu.Unlock()
			added[cm.Name]++
		}}, informer.SubOptions[*corev1.ConfigMap]{Name: "nervous"})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-sub.Synced():
		case <-patience.Context(t).Done():
			t.Fatal("never synced")
		}
		if p := <-panics; p.Subscriber != "nervous" || p.Key.Name != "bad" {
			t.Errorf("reported was %v", p)
		}
		w.create("later", "0")
		m.receives(t, "add later")
		patience.Until(t, "the one that panicked to go on", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return added["good"] == 1 && added["later"] == 1
		})
		if st := sub.Status(); st.Panics != 1 || len(panics) != 0 {
			t.Errorf("%d panics", st.Panics)
		}
	})
}

// H05: a subscriber removes itself, and hears nothing after its last call.
func TestH05_RemovingOneself(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		m := startMirror(t, s.config, configMaps, plain(s, nil))
		other := startMirror(t, s.config, configMaps, plain(s, nil))
		subscribed := make(chan *informer.Subscription, 1)
		var mu sync.Mutex
		var calls []string
		sub, err := m.Subscribe(informer.Handler[*corev1.ConfigMap]{OnAdd: func(cm *corev1.ConfigMap, _ bool) {
			mu.Lock()
			calls = append(calls, cm.Name)
			mu.Unlock()
			if cm.Name == "last" {
				self := <-subscribed
				self.Remove()
				self.Remove()
			}
		}}, informer.SubOptions[*corev1.ConfigMap]{})
		if err != nil {
			t.Fatal(err)
		}
		subscribed <- sub
		w.create("last", "0")
		select {
		case <-sub.Done():
		case <-patience.Context(t).Done():
			t.Fatal("never done")
		}
		w.create("after", "0")
		m.receives(t, "add after")
		sub.Remove()
		other.receives(t, "add after")
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(calls) != "[a last]" {
			t.Errorf("called for %v", calls)
		}
	})
}

// H07: an informer is stopped at each moment of its life. That nothing stays behind the
// package's TestMain sees to.
func TestH07_StoppingAtAnyMoment(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		writer{t, s}.create("a", "0")
		reached := func(state reflector.State) func(*informer.Informer[*corev1.ConfigMap]) bool {
			return func(inf *informer.Informer[*corev1.ConfigMap]) bool {
				sources := inf.Status().Sources
				return len(sources) == 1 && sources[0].Reflector.State == state
			}
		}
		hold := func(hits func(url.Values) bool) func(context.Context, url.Values) {
			return func(ctx context.Context, query url.Values) {
				if hits(query) {
					<-ctx.Done()
				}
			}
		}
		nothing := func(context.Context, url.Values) {}
		for _, moment := range []struct {
			name   string
			mode   reflector.Mode
			during func(context.Context, url.Values)
			until  func(*informer.Informer[*corev1.ConfigMap]) bool
		}{
			{"before it began", reflector.StreamingAuto, nothing, func(*informer.Informer[*corev1.ConfigMap]) bool { return true }},
			{"while it lists", reflector.StreamingOff, hold(func(q url.Values) bool { return !q.Has("watch") }), reached(reflector.Listing)},
			{"while it streams", reflector.StreamingOn, hold(func(q url.Values) bool { return q.Has("sendInitialEvents") }), reached(reflector.Streaming)},
			{"while it opens a watch", reflector.StreamingOff, hold(func(q url.Values) bool { return q.Has("watch") }), reached(reflector.Watching)},
			{"while it watches", reflector.StreamingAuto, nothing, func(inf *informer.Informer[*corev1.ConfigMap]) bool { return inf.Status().Live() }},
			{"while it waits", reflector.StreamingOff, func(_ context.Context, query url.Values) {
				query.Set("resourceVersion", "nonsense")
			}, reached(reflector.BackingOff)},
		} {
			t.Run(moment.name, func(t *testing.T) {
				ctx, stop := context.WithCancel(patience.Context(t))
				defer stop()
				client, err := wire.New(asking(s.config, func(query url.Values) { moment.during(ctx, query) }), wire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.CloseIdleConnections)
				source, err := stream.NewSource(wire.For(client, configMaps), object.Selection{}, stream.Options{})
				if err != nil {
					t.Fatal(err)
				}
				inf, err := informer.New(source, object.Meta[*corev1.ConfigMap](), informer.Options[*corev1.ConfigMap]{
					Selection: object.Selection{Namespace: s.namespace},
					Reflector: reflector.Options[*corev1.ConfigMap]{Streaming: moment.mode, OnError: func(error) {}},
				})
				if err != nil {
					t.Fatal(err)
				}
				sub, err := inf.Subscribe(informer.Handler[*corev1.ConfigMap]{}, informer.SubOptions[*corev1.ConfigMap]{})
				if err != nil {
					t.Fatal(err)
				}
				ran := make(chan error, 1)
				go func() { ran <- inf.Run(ctx) }()
				patience.Until(t, moment.name, func() bool { return moment.until(inf) })
				stop()
				if err := <-ran; err != nil {
					t.Errorf("it ended with %v", err)
				}
				<-sub.Done()
				if !inf.Status().Stopped {
					t.Error("its status does not say so")
				}
			})
		}
	})
}

// H09: a subscriber with a resync receives the state again, without a request to the server.
func TestH09_ResyncListsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		config, asked := record(s.config)
		m := startMirror(t, config, configMaps, plain(s, nil))
		m.watches(t)
		before := len(asked.with())
		var mu sync.Mutex
		again := 0
		sub, err := m.Subscribe(informer.Handler[*corev1.ConfigMap]{OnUpdate: func(old, new *corev1.ConfigMap) {
			mu.Lock()
			defer mu.Unlock()
			if old == new {
				again++
			}
		}}, informer.SubOptions[*corev1.ConfigMap]{Resync: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		patience.Until(t, "three replays", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return again >= 3
		})
		if n := len(asked.with()); n != before || m.reflector().Counts.Lists != 1 {
			t.Errorf("%d requests; there had been %d", n, before)
		}
		if sub.Status().Resyncs < 3 || m.times("update a") != 0 {
			t.Error("another subscriber received a resync, or it is not counted")
		}
	})
}
