package apiserver

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	_ "github.com/tarnproject/tarn/internal/soak" // -soak scales rapid's checks
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
	s         *storage
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
	m := &model{s: newStorage(limit, 1<<30, false), kinds: [2]*kinds.Kind{of("ones"), of("twos")}, states: map[uint64][2]state{}}
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
	old := m.s.get(k, key)
	var ok bool
	if old != nil && rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
		_, ok = m.s.commit(k, key, old, nil)
		delete(now[which], key)
	} else {
		tier := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tier")
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"tier": tier}}}
		if old != nil {
			obj.ResourceVersion = old.Meta.GetResourceVersion()
		}
		before := m.s.version
		_, ok = m.s.commit(k, key, old, obj)
		if same := now[which][key] == tier; same != (m.s.version == before) {
			t.Fatalf("writing %s over %q took the version from %d to %d", tier, now[which][key], before, m.s.version)
		}
		now[which][key] = tier
	}
	if !ok {
		t.Fatalf("commit of %v failed", key)
	}
	if _, stale := m.s.commit(k, key, kinds.NewRecord(&corev1.ConfigMap{}, 1), nil); stale {
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
		p, err := m.s.list(context.Background(), m.kinds[which], sel, opts)
		if gone := at < m.s.compacted; gone != apierrors.IsResourceExpired(err) {
			t.Fatalf("a list at %d, compacted to %d: %v", at, m.s.compacted, err)
		} else if gone {
			return
		}
		if opts.Limit > 0 && int64(len(p.records)) > opts.Limit || p.version != at {
			t.Fatalf("a page of %d at %d", len(p.records), p.version)
		}
		for _, r := range p.records {
			got[r.Key] = r.Meta.GetLabels()["tier"]
		}
		if p.next == "" {
			break
		}
		opts = &internalversion.ListOptions{Continue: p.next, Limit: opts.Limit}
	}
	if want := selected(m.states[at][which], sel); !maps.Equal(got, want) {
		t.Fatalf("at %d there is %v, want %v", at, got, want)
	}
}

func (m *model) selection(t *rapid.T) selection {
	sel := selection{namespace: rapid.SampledFrom([]string{"", "a"}).Draw(t, "in")}
	if rapid.Bool().Draw(t, "labels") {
		sel.labels = labels.SelectorFromSet(labels.Set{"tier": "x"})
	}
	return sel
}

func selected(all state, sel selection) state {
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
	w, _, err := m.s.watch(context.Background(), m.kinds[which], sel, &internalversion.ListOptions{Watch: true, ResourceVersion: kinds.FormatVersion(from)}, 0)
	if gone := from < m.s.compacted; gone != (err != nil) {
		t.Fatalf("a watch from %d, compacted to %d: %v", from, m.s.compacted, err)
	} else if gone {
		return
	}
	defer w.close()
	got, last := maps.Clone(selected(m.states[from][which], sel)), from
	for len(w.wake) > 0 {
		<-w.wake
		events, version, err := w.next()
		if err != nil || version < last {
			t.Fatalf("after %d came %d: %v", last, version, err)
		}
		for _, ev := range events {
			_, had := got[ev.record.Key]
			if had != (ev.kind != watch.Added) || ev.record.Version <= last {
				t.Fatalf("%s of %v at %d after %d; it was there: %v", ev.kind, ev.record.Key, ev.record.Version, last, had)
			}
			last = ev.record.Version
			got[ev.record.Key] = ev.record.Meta.GetLabels()["tier"]
			if ev.kind == watch.Deleted {
				delete(got, ev.record.Key)
			}
		}
		last = version
	}
	if want := selected(m.states[m.s.version][which], sel); last != m.s.version || !maps.Equal(got, want) {
		t.Fatalf("a watch from %d to %d has %v, want %v", from, last, got, want)
	}
}

func (m *model) rewind(t *rapid.T) {
	to := m.s.rewind(rapid.IntRange(0, 3).Draw(t, "changes"))
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
				m.s.compact(rapid.IntRange(0, 4).Draw(t, "keep"))
			},
		})
	})
}

// The three cases before the errors differ from RFC 6902, on the real server too.
func TestPatchesAreThoseOfTheRealServer(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/-","value":3}]`, `{"a":[1,2,3]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/0","value":0}]`, `{"a":[0,1,2]}`},
		{`{"a":[1,2]}`, `[{"op":"replace","path":"/a/1","value":{"b":12345678901234567890}}]`, `{"a":[1,{"b":12345678901234567890}]}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a/b","path":"/c"}]`, `{"a":{},"c":1}`},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"add","path":"/c/b","value":2}]`, `{"a":{"b":1},"c":{"b":2}}`},
		{`{"~/":1}`, `[{"op":"remove","path":"/~0~1"}]`, `{}`},
		{`{}`, `[{"op":"test","path":"/a","value":null}]`, `{}`},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":1}]`, `{"a":1,"b":1}`},
		{`{"a":1}`, `[{"op":"add","path":"/b"}]`, `{"a":1,"b":null}`},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/-1"}]`, `{"a":[1]}`},
		{`{"a":1}`, `[{"op":"add","path":"","value":{}}]`, ``},
		{`{"a":1}`, `[{"op":"remove","path":"/b"}]`, ``},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/2","value":1}]`, ``},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/01"}]`, ``},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/"}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, ``},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ``},
		{`{"a":1}`, `[{"op":"add","path":"b","value":1}]`, ``},
		{`{"a":1}`, `[{"op":"explode","path":"/a"}]`, ``},
	} {
		got, _, err := patched("application/json-patch+json", []byte(c[0]), []byte(c[1]), nil)
		if (err != nil) != (c[2] == "") || err == nil && string(got) != c[2] {
			t.Errorf("%s with %s: %s %v", c[0], c[1], got, err)
		}
	}
	merged, _, err := patched("application/merge-patch+json", []byte(`{"a":{"b":1,"c":[1]},"d":1}`), []byte(`{"a":{"b":null,"c":[2],"e":{"f":null}}}`), nil)
	if want := `{"a":{"c":[2],"e":{}},"d":1}`; err != nil || string(merged) != want {
		t.Errorf("got %s %v, want %s", merged, err, want)
	}
}

func TestW23_TheEndOfARemovedKindComesAfterItsDeletions(t *testing.T) {
	m := newModel(10)
	k, key := m.kinds[0], object.Key{Namespace: "a", Name: "b"}
	old, _ := m.s.commit(k, key, nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}})
	w, _, err := m.s.watch(context.Background(), k, selection{}, &internalversion.ListOptions{Watch: true, ResourceVersion: kinds.FormatVersion(old.Version)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	m.s.commit(k, key, old, nil)
	m.s.remove(k) // both before the watch reads
	<-w.wake
	if events, _, err := w.next(); err != nil || len(events) != 1 || len(w.wake) != 1 {
		t.Fatalf("%v %v, and nothing wakes the watch again", events, err)
	}
	if _, _, err := w.next(); err != errOver {
		t.Errorf("got %v", err)
	}
}
