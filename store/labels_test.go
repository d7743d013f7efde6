package store_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

func mustParse(selector string) labels.Selector {
	s, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return s
}

func requirement(t interface{ Fatal(...any) }, key string, op selection.Operator, values ...string) labels.Requirement {
	r, err := labels.NewRequirement(key, op, values)
	if err != nil {
		t.Fatal(err)
	}
	return *r
}

// scanned answers a selector without an index.
func scanned(snap podSnapshot, selector labels.Selector) []string {
	return sorted(func(yield func(*corev1.Pod) bool) {
		for p := range snap.All() {
			if selector.Matches(labels.Set(p.Labels)) && !yield(p) {
				return
			}
		}
	})
}

var (
	labelKeys   = []string{"app", "example.com/tier", "release"}
	labelValues = []string{"web", "db", "", "1", "2", "10", "1x"}
	labelSets   = rapid.MapOfN(rapid.SampledFrom(labelKeys), rapid.SampledFrom(labelValues), 0, 3)
)

// drawSelector makes a selector of any requirements, which may contradict each other.
func drawSelector(t *rapid.T) labels.Selector {
	selector := labels.NewSelector()
	for range rapid.IntRange(0, 4).Draw(t, "requirements") {
		op := rapid.SampledFrom([]selection.Operator{
			selection.Equals, selection.DoubleEquals, selection.NotEquals, selection.In, selection.NotIn,
			selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan,
		}).Draw(t, "operator")
		var values []string
		switch op {
		case selection.In, selection.NotIn:
			values = rapid.SliceOfNDistinct(rapid.SampledFrom(labelValues), 1, 4, rapid.ID).Draw(t, "values")
		case selection.Exists, selection.DoesNotExist:
		case selection.GreaterThan, selection.LessThan:
			values = []string{fmt.Sprint(rapid.IntRange(0, 11).Draw(t, "bound"))}
		default:
			values = []string{rapid.SampledFrom(labelValues).Draw(t, "value")}
		}
		key := rapid.SampledFrom(append([]string{"none"}, labelKeys...)).Draw(t, "key")
		selector = selector.Add(requirement(t, key, op, values...))
	}
	return selector
}

// S07, as to what is selected: exactly what a scan finds, in every snapshot.
func TestS07_SelectAgreesWithAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := store.NewLabelIndex(podMeta.Labels)
		s := store.Must(store.New(podMeta, podOptions{}))
		late := rapid.IntRange(0, 20).Draw(t, "steps before the index is added")
		snaps := []podSnapshot{s.Snapshot()}
		defer func() {
			for _, snap := range snaps {
				snap.Release()
			}
		}()
		version := 0
		draw := func() *corev1.Pod {
			version++
			set := labelSets.Draw(t, "labels")
			return pod(fmt.Sprintf("a/%d", rapid.IntRange(0, 30).Draw(t, "name")), version,
				func(p *corev1.Pod) { p.Labels = maps.Clone(set) })
		}
		for step := range rapid.IntRange(0, 60).Draw(t, "steps") {
			if step == late {
				s.AddIndex(x)
			}
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0:
				pods := []*corev1.Pod{}
				for range rapid.IntRange(0, 20).Draw(t, "listed") {
					pods = append(pods, draw())
				}
				if err := s.Replace("", pods...); err != nil {
					t.Fatal(err)
				}
			case 1, 2:
				s.Delete(object.RawKey(fmt.Sprintf("a/%d", rapid.IntRange(0, 30).Draw(t, "gone"))))
			case 3:
				snaps = append(snaps, s.Snapshot())
			case 4:
				i := rapid.IntRange(0, len(snaps)-1).Draw(t, "released")
				snaps[i].Release()
				snaps[i] = s.Snapshot()
			default:
				if err := s.Set(draw()); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.AddIndex(x)
		snaps = append(snaps, s.Snapshot())
		for range 8 {
			selector := drawSelector(t)
			for _, snap := range snaps {
				got, all := sorted(x.Select(snap, selector)), scanned(snap, selector)
				if !slices.Equal(got, all) {
					t.Fatalf("%q at revision %d:\n  selected %v\n   scanned %v", selector, snap.Revision(), got, all)
				}
			}
		}
	})
}

// labelled makes a store in which one pod in a hundred has app=rare and a zone, half of them have
// tier=front, all have a release, and every thousandth a canary label. It counts how often
// the labels of an object are read.
func labelled(t testing.TB, n int) (s *podStore, x *store.LabelIndex[*corev1.Pod], calls *int) {
	t.Helper()
	calls = new(int)
	x = store.NewLabelIndex(func(p *corev1.Pod) map[string]string { *calls++; return p.Labels })
	s = newPodStore(t, x)
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("ns-%d/pod-%05d", i%10, i), i+1, labelsOf(i))
	}
	apply(t, s, n+1, listed(n+1, pods...))
	*calls = 0
	return s, x, calls
}

func labelsOf(i int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{
			"app": "common", "tier": []string{"front", "back"}[i%2], "release": fmt.Sprint(i % 500),
		}
		if i%100 == 0 {
			p.Labels["app"], p.Labels["zone"] = "rare", "rare"
		}
		if i%1000 == 0 {
			p.Labels["canary"] = "yes"
		}
	}
}

func TestS07_CostFollowsTheMatches(t *testing.T) {
	soak.Measures(t)
	const n = 10000
	s, x, calls := labelled(t, n)
	snap := now(t, s)
	for selector, candidates := range map[string]int{
		"app=rare":                                n / 100,
		"app==rare":                               n / 100,
		"app=rare,tier=front":                     n / 100,
		"tier=front,app=rare":                     n / 100,
		"app in (rare,none),tier!=back":           n / 100,
		"release in (7,8,9)":                      n / 500 * 3,
		"release in (7,8,9),tier=back,app=common": n / 500 * 3,
		"canary":                                  n / 1000,
		"canary,app=rare":                         n / 1000,
		"app,tier,release,canary=yes":             n / 1000,
		"canary,release notin (0)":                n / 1000,
		"release=0,!canary":                       n / 500,
		"release=7,release>3":                     n / 500,
		"app=none":                                0,
		"app=rare,none":                           0,
		"none>5":                                  0,
		"none=1,!app":                             0,
	} {
		*calls = 0
		matches := len(sorted(x.Select(snap, mustParse(selector))))
		if *calls > candidates {
			t.Errorf("%q: labels of %d objects read for %d matches; %d would do", selector, *calls, matches, candidates)
		}
		want(t, selector, matches, len(scanned(snap, mustParse(selector))))
	}
}

// Objects that changed since may be looked at one by one, but not the others.
func TestS07_CostFollowsTheMatchesInAnOlderSnapshot(t *testing.T) {
	soak.Measures(t)
	const n, changed = 10000, 50
	s, x, calls := labelled(t, n)
	older := now(t, s)
	for i := range changed {
		i *= 100 // all of them rare
		set(t, s, pod(fmt.Sprintf("ns-%d/pod-%05d", i%10, i), n+i+2, labelsOf(i+1)))
	}
	*calls = 0
	want(t, "older", len(sorted(x.Select(older, mustParse("app=rare,tier=front")))), n/100)
	if *calls > n/100+2*changed {
		t.Errorf("labels of %d objects read for %d matches and %d changes", *calls, n/100, changed)
	}
	*calls = 0
	want(t, "present", len(sorted(x.Select(now(t, s), mustParse("app=rare,tier=front")))), n/100-changed)
	if *calls > n/100+2*changed {
		t.Errorf("labels of %d objects read for %d matches and %d changes", *calls, n/100-changed, changed)
	}
}

// The label that half of the objects have is in question for each of them; the selector must
// start from the other one all the same.
func TestS07_SelectorStartsFromTheFewest(t *testing.T) {
	soak.Measures(t)
	const n = 10000
	s, x, calls := labelled(t, n)
	older := now(t, s)
	for i := range n {
		set(t, s, pod(fmt.Sprintf("ns-%d/pod-%05d", i%10, i), n+i+2, labelsOf(i), func(p *corev1.Pod) {
			p.Labels["tier"] = []string{"back", "front"}[i%2]
		}))
	}
	for _, snap := range []podSnapshot{older, now(t, s)} {
		for _, selector := range []string{"tier=front,app=rare", "app=rare,tier=front", "tier=front,zone=rare", "tier,zone"} {
			*calls = 0
			got := sorted(x.Select(snap, mustParse(selector)))
			if *calls > 2*n/100 {
				t.Errorf("%q: labels of %d objects read, %d have the rarer label", selector, *calls, n/100)
			}
			want(t, selector, got, scanned(snap, mustParse(selector)))
		}
	}
}

func TestSelectEverythingNothingAndNil(t *testing.T) {
	s, x, _ := labelled(t, 10)
	snap := now(t, s)
	want(t, "everything", len(sorted(x.Select(snap, labels.Everything()))), 10)
	want(t, "nothing", sorted(x.Select(snap, labels.Nothing())), nil)
	want(t, "nil", sorted(x.Select(snap, nil)), nil)
	want(t, "the zero snapshot", sorted(x.Select(podSnapshot{}, labels.Everything())), nil)
	want(t, "a set", len(sorted(x.Select(snap, labels.SelectorFromSet(labels.Set{"tier": "back"})))), 5)
}

// labels.NewRequirement lets a value be named twice.
func TestSelectYieldsAnObjectOnceThoughItsValueIsNamedTwice(t *testing.T) {
	s, x, _ := labelled(t, 4)
	selector := labels.NewSelector().Add(requirement(t, "tier", selection.In, "front", "front", "none"))
	want(t, "selected", len(sorted(x.Select(now(t, s), selector))), 2)
}

func TestSelectStopsWhenAsked(t *testing.T) {
	s, x, calls := labelled(t, 1000)
	snap := now(t, s)
	for _, selector := range []string{"", "tier=front", "tier in (front,back)", "release", "app!=none", "tier=front,app=common"} {
		*calls = 0
		visits := 0
		for range x.Select(snap, mustParse(selector)) {
			if visits++; visits == 3 {
				break
			}
		}
		if visits != 3 || *calls > 10 {
			t.Errorf("%q: %d visits, labels of %d objects read", selector, visits, *calls)
		}
	}
}

func TestLabelIndexIsAnIndexOfSingleLabels(t *testing.T) {
	s := newPodStore(t)
	x := store.NewLabelIndex(podMeta.Labels)
	s.AddIndex(x)
	set(t, s, pod("a/1", 1, withLabels("app", "web", "tier", "front")), pod("a/2", 2, withLabels("app", "db")), pod("a/3", 3))
	snap := now(t, s)
	want(t, "name", x.Name(), "labels")
	want(t, "one label", sorted(x.Get(snap, store.Label{Key: "app", Value: "web"})), []string{"a/1@1"})
	want(t, "all labels", slices.Collect(x.Keys(snap)), []store.Label{{"app", "db"}, {"app", "web"}, {"tier", "front"}})
}

// A label function that panics costs its object the place in the index, in a selection as
// well as in Apply.
func TestS04_PanickingLabelFunctionDoesNotReachTheReader(t *testing.T) {
	x := store.NewLabelIndex(func(p *corev1.Pod) map[string]string {
		if strings.HasPrefix(p.Name, "bad") {
			panic("no labels")
		}
		return p.Labels
	})
	s := newPodStore(t, x)
	apply(t, s, 10, listed(10, pod("a/1", 1, withLabels("app", "web")), pod("a/bad", 2)))
	want(t, "failures", indexStats(t, s, "labels").Failures, 1)
	for _, selector := range []string{"app", "app!=db", "!none"} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%q: the reader panics: %v", selector, r)
				}
			}()
			want(t, selector, sorted(x.Select(now(t, s), mustParse(selector))), []string{"a/1@1"})
		}()
	}
}
