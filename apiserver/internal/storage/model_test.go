package storage

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	_ "github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

// state is the tier of each object at one version.
type state map[object.Key]string

// model records the state at every version.
type model struct {
	s         *Storage
	kinds     [2]*kinds.Kind
	versions  []uint64
	states    map[uint64][2]state
	compacted uint64
}

func newModel(limit int) *model {
	of := func(name string) *kinds.Kind {
		k := &kinds.Kind{Resource: object.Resource{Version: "v1", Resource: name, Kind: "ConfigMap", Namespaced: true}}
		k.Storage = k
		return k
	}
	m := &model{s: New(limit, 1<<30, false), kinds: [2]*kinds.Kind{of("ones"), of("twos")}, states: map[uint64][2]state{}}
	m.remember([2]state{{}, {}})
	m.compacted = m.s.version
	return m
}

func (m *model) remember(now [2]state) {
	m.versions = append(m.versions, m.s.version)
	m.states[m.s.version] = now
}

func (m *model) write(t *rapid.T) {
	which := rapid.IntRange(0, 1).Draw(t, "kind")
	key := object.Key{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), Name: strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "name"))}
	k, now := m.kinds[which], m.states[m.s.version]
	now[which] = maps.Clone(now[which])
	old := m.s.Get(k, key)
	var ok bool
	if old != nil && rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
		_, ok = m.s.Commit(k, key, old, nil)
		delete(now[which], key)
	} else {
		tier := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tier")
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"tier": tier}}}
		if old != nil {
			obj.ResourceVersion = old.Meta.GetResourceVersion()
		}
		before := m.s.version
		_, ok = m.s.Commit(k, key, old, obj)
		if same := now[which][key] == tier; same != (m.s.version == before) {
			t.Fatalf("writing %s over %q took the version from %d to %d", tier, now[which][key], before, m.s.version)
		}
		now[which][key] = tier
	}
	if !ok {
		t.Fatalf("commit of %v failed", key)
	}
	if _, stale := m.s.Commit(k, key, kinds.NewRecord(&corev1.ConfigMap{}, 1), nil); stale {
		t.Fatalf("commit with an outdated record succeeded")
	}
	m.remember(now)
	if over := len(m.s.log) - m.s.limit; over > 0 {
		t.Fatalf("the history holds %d changes, its limit is %d", len(m.s.log), m.s.limit)
	}
}

// list reads all pages and compares them with the model.
func (m *model) list(t *rapid.T) {
	which := rapid.IntRange(0, 1).Draw(t, "kind")
	at := rapid.SampledFrom(m.versions).Draw(t, "version")
	sel := m.selection(t)
	opts := &internalversion.ListOptions{
		ResourceVersion: kinds.FormatVersion(at), ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: int64(rapid.IntRange(0, 3).Draw(t, "limit")),
	}
	got := state{}
	for {
		p, err := m.s.List(context.Background(), m.kinds[which], sel, opts)
		if gone := at < m.s.compacted; gone != apierrors.IsResourceExpired(err) {
			t.Fatalf("a list at %d, compacted to %d: %v", at, m.s.compacted, err)
		} else if gone {
			return
		}
		if opts.Limit > 0 && int64(len(p.Records)) > opts.Limit || p.Version != at {
			t.Fatalf("a page of %d at %d", len(p.Records), p.Version)
		}
		for _, r := range p.Records {
			got[r.Key] = r.Meta.GetLabels()["tier"]
		}
		if p.Next == "" {
			break
		}
		opts = &internalversion.ListOptions{Continue: p.Next, Limit: opts.Limit}
	}
	if want := selected(m.states[at][which], sel); !maps.Equal(got, want) {
		t.Fatalf("at %d there is %v, want %v", at, got, want)
	}
}

func (m *model) selection(t *rapid.T) Selection {
	sel := Selection{namespace: rapid.SampledFrom([]string{"", "a"}).Draw(t, "in")}
	if rapid.Bool().Draw(t, "labels") {
		sel.labels = labels.SelectorFromSet(labels.Set{"tier": "x"})
	}
	return sel
}

func selected(all state, sel Selection) state {
	out := state{}
	for key, tier := range all {
		if (sel.namespace == "" || key.Namespace == sel.namespace) && (sel.labels == nil || tier == "x") {
			out[key] = tier
		}
	}
	return out
}

// watch follows a watch from a random version to the latest. Its events must lead from the
// one state to the other, without an invalid event.
func (m *model) watch(t *rapid.T) {
	which := rapid.IntRange(0, 1).Draw(t, "kind")
	from := rapid.SampledFrom(m.versions).Draw(t, "from")
	sel := m.selection(t)
	w, _, err := m.s.Watch(context.Background(), m.kinds[which], sel, &internalversion.ListOptions{Watch: true, ResourceVersion: kinds.FormatVersion(from)}, 0)
	if gone := from < m.s.compacted; gone != (err != nil) {
		t.Fatalf("a watch from %d, compacted to %d: %v", from, m.s.compacted, err)
	} else if gone {
		return
	}
	defer w.Close()
	got, last := maps.Clone(selected(m.states[from][which], sel)), from
	for len(w.Wake) > 0 {
		<-w.Wake
		events, version, err := w.Next()
		if err != nil || version < last {
			t.Fatalf("after %d came %d: %v", last, version, err)
		}
		for _, ev := range events {
			_, had := got[ev.Record.Key]
			if had != (ev.Kind != watch.Added) || ev.Record.Version <= last {
				t.Fatalf("%s of %v at %d after %d; it was there: %v", ev.Kind, ev.Record.Key, ev.Record.Version, last, had)
			}
			last = ev.Record.Version
			got[ev.Record.Key] = ev.Record.Meta.GetLabels()["tier"]
			if ev.Kind == watch.Deleted {
				delete(got, ev.Record.Key)
			}
		}
		last = version
	}
	if want := selected(m.states[m.s.version][which], sel); last != m.s.version || !maps.Equal(got, want) {
		t.Fatalf("a watch from %d to %d has %v, want %v", from, last, got, want)
	}
}

func (m *model) rewind(t *rapid.T) {
	to := m.s.Rewind(rapid.IntRange(0, 3).Draw(t, "changes"))
	if !slices.Contains(m.versions, to) || to < m.s.compacted {
		t.Fatalf("rewound to %d", to)
	}
	m.versions = slices.DeleteFunc(m.versions, func(v uint64) bool { return v > to })
}

func TestListsAndWatchesAgreeWithAModelOfEveryState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(1, 12).Draw(t, "history"))
		t.Repeat(map[string]func(*rapid.T){
			"write":  m.write,
			"write2": m.write,
			"list":   m.list,
			"watch":  m.watch,
			"rewind": m.rewind,
			"compact": func(t *rapid.T) {
				m.s.Compact(rapid.IntRange(0, 4).Draw(t, "keep"))
			},
		})
	})
}

func TestW23_TheEndOfARemovedKindComesAfterItsDeletions(t *testing.T) {
	m := newModel(10)
	k, key := m.kinds[0], object.Key{Namespace: "a", Name: "b"}
	old, _ := m.s.Commit(k, key, nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}})
	w, _, err := m.s.Watch(context.Background(), k, Selection{}, &internalversion.ListOptions{Watch: true, ResourceVersion: kinds.FormatVersion(old.Version)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m.s.Commit(k, key, old, nil)
	m.s.Remove(k) // both before the watch reads
	<-w.Wake
	if events, _, err := w.Next(); err != nil || len(events) != 1 || len(w.Wake) != 1 {
		t.Fatalf("%v %v, and nothing wakes the watch again", events, err)
	}
	if _, _, err := w.Next(); err != ErrOver {
		t.Errorf("got %v", err)
	}
}
