package clientgo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// The tests here hold behaviours that client-go's own tests of its reflector pin; see
// docs/clientgo-behaviours.md. Each runs over both.

// script is a cache.ListerWatcher with scripted answers, which records the requests.
type script struct {
	asked recording
	list  func(opts metav1.ListOptions) (*corev1.PodList, error)
	watch func(opts metav1.ListOptions) ([]watch.Event, error)
}

// IsWatchListSemanticsUnSupported is what client-go looks for.
func (s *script) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.Lister.
func (s *script) List(opts metav1.ListOptions) (runtime.Object, error) {
	s.asked.add("", "list %q %s limit %d continue %q", opts.ResourceVersion, opts.ResourceVersionMatch, opts.Limit, opts.Continue)
	list, err := s.list(opts)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Watch implements cache.Watcher.
func (s *script) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	within := opts.TimeoutSeconds != nil && *opts.TimeoutSeconds >= 300 && *opts.TimeoutSeconds <= 600
	s.asked.add("", "watch %q bookmarks %v timeout %v", opts.ResourceVersion, opts.AllowWatchBookmarks, within)
	events, err := s.watch(opts)
	if err != nil {
		return nil, err
	}
	w := watch.NewFakeWithChanSize(len(events), false)
	for _, ev := range events {
		w.Action(ev.Type, ev.Object)
	}
	return w, nil
}

func podAt(name string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(version), ResourceVersion: fmt.Sprint(version)}}
}

func podsAt(version int, pods ...*corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(version)}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

// overBoth runs a script over client-go's informer and ours for five minutes and returns
// what was asked and what the stores then hold.
func overBoth(t *testing.T, expected runtime.Object, make func() *script) (asked, held [2][]string) {
	withoutErrorHandlers(t)
	for i, informer := range [2]newInformer{cache.NewSharedIndexInformerWithOptions, clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			s := make()
			inf := informer(s, expected, cache.SharedIndexInformerOptions{})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			inf.RunWithContext(ctx)
			asked[i], held[i] = s.asked.take(), append(inf.GetStore().ListKeys(), inf.LastSyncResourceVersion())
			slices.Sort(held[i])
		})
	}
	return asked, held
}

func wantSame(t *testing.T, what string, both [2][]string) {
	t.Helper()
	if diff := cmp.Diff(both[0], both[1]); diff != "" {
		t.Errorf("%s (-client-go +ours):\n%s", what, diff)
	}
}

// page answers paged lists of four objects, two at a time.
func page(opts metav1.ListOptions) (*corev1.PodList, error) {
	switch {
	case opts.Limit == 0:
		return podsAt(10, podAt("a", 1), podAt("b", 2), podAt("c", 3), podAt("d", 4)), nil
	case opts.Continue == "":
		list := podsAt(10, podAt("a", 1), podAt("b", 2))
		list.Continue = "more"
		return list, nil
	}
	return podsAt(10, podAt("c", 3), podAt("d", 4)), nil
}

var expired = apierrors.NewResourceExpired("too old")

// expiring returns watches. The first sends an object at version 11, and then that the version has
// expired.
func expiring() func(metav1.ListOptions) ([]watch.Event, error) {
	first := true
	return func(metav1.ListOptions) ([]watch.Event, error) {
		defer func() { first = false }()
		if first {
			return []watch.Event{{Type: watch.Added, Object: podAt("late", 11)}, {Type: watch.Error, Object: new(expired.Status())}}, nil
		}
		return nil, nil
	}
}

func TestD20_AListThatMustNotBeOlderSaysSo(t *testing.T) {
	asked, _ := overBoth(t, &corev1.Pod{}, func() *script { return &script{list: page, watch: expiring()} })
	for i, want := range []string{`: list "11"  limit 500 continue ""`, `: list "11" NotOlderThan limit 500 continue ""`} {
		if !slices.Contains(asked[i], want) {
			t.Errorf("asked %q, want %s among it", asked[i], want)
		}
	}
}

func TestD21_AContinuationThatIsGoneIsTriedAnew(t *testing.T) {
	asked, held := overBoth(t, &corev1.Pod{}, func() *script {
		return &script{watch: func(metav1.ListOptions) ([]watch.Event, error) { return nil, nil }, list: func(opts metav1.ListOptions) (*corev1.PodList, error) {
			if opts.Continue != "" {
				return nil, expired
			}
			return page(opts)
		}}
	})
	for i, tries := range []int{1, 3} {
		var want []string
		for range tries {
			want = append(want, `: list "0"  limit 500 continue ""`, `: list ""  limit 500 continue "more"`)
		}
		want = append(want, `: list "0"  limit 0 continue ""`, `: watch "10" bookmarks true timeout true`)
		if !slices.Equal(asked[i], want) {
			t.Errorf("asked %q\nwant %q", asked[i], want)
		}
	}
	wantSame(t, "held", held)
}

func TestListsAndWatchesAskForWhatClientGosDo(t *testing.T) {
	tooLarge := apierrors.NewTimeoutError("too large", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, make := range map[string]func() *script{
		"a list in pages and a watch": func() *script {
			return &script{list: page, watch: func(metav1.ListOptions) ([]watch.Event, error) { return nil, nil }}
		},
		"an expired version": func() *script {
			return &script{list: page, watch: expiring()}
		},
		"an expired version, of a list too": func() *script {
			return &script{watch: expiring(), list: func(opts metav1.ListOptions) (*corev1.PodList, error) {
				if opts.ResourceVersion == "11" {
					return nil, expired
				}
				return page(opts)
			}}
		},
		"a version that is too large": func() *script {
			return &script{watch: expiring(), list: func(opts metav1.ListOptions) (*corev1.PodList, error) {
				if opts.ResourceVersion == "11" {
					return nil, tooLarge
				}
				return page(opts)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, held := overBoth(t, &corev1.Pod{}, make)
			for i, line := range asked[1] { // D20
				asked[1][i] = strings.Replace(line, "NotOlderThan", "", 1)
			}
			wantSame(t, "asked", asked)
			wantSame(t, "held", held)
		})
	}
}

func TestAWatchThatIsThrottledIsTriedAgainWithoutAList(t *testing.T) {
	busy := apierrors.NewTooManyRequests("later", 1)
	for name, watches := range map[string]func(n int) ([]watch.Event, error){
		"refused": func(n int) ([]watch.Event, error) { return nil, busy },
		"ended": func(n int) ([]watch.Event, error) {
			return []watch.Event{{Type: watch.Error, Object: new(busy.Status())}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, held := overBoth(t, &corev1.Pod{}, func() *script {
				n := 0
				return &script{list: page, watch: func(metav1.ListOptions) ([]watch.Event, error) {
					if n++; n < 4 {
						return watches(n)
					}
					return []watch.Event{{Type: watch.Added, Object: podAt("late", 11)}}, nil
				}}
			})
			wantSame(t, "asked", asked)
			wantSame(t, "held", held)
			if len(asked[1]) != 6 {
				t.Errorf("asked %q, want the two pages of a list and four watches", asked[1])
			}
		})
	}
}

// The deletion of a corrupt object that was never read is an error event: only a list can show that
// it was deleted.
func TestAnObjectThatWasDeletedUnreadGoes(t *testing.T) {
	_, held := overBoth(t, &corev1.Pod{}, func() *script {
		version, failed := 3, false
		return &script{
			list: func(metav1.ListOptions) (*corev1.PodList, error) { return podsAt(version, podAt("a", 1)), nil },
			watch: func(opts metav1.ListOptions) ([]watch.Event, error) {
				if opts.ResourceVersion == "5" {
					return nil, nil
				}
				version = 5
				events := []watch.Event{{Type: watch.Error, Object: &metav1.Status{
					Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonStoreReadError, Message: "corrupt object has been deleted",
				}}}
				if !failed {
					events = append([]watch.Event{{Type: watch.Added, Object: podAt("corrupt", 4)}}, events...)
				}
				failed = true
				return events, nil
			},
		}
	})
	wantSame(t, "held", held)
	if want := []string{"5", "ns/a"}; !slices.Equal(held[1], want) {
		t.Errorf("held %q, want %q", held[1], want)
	}
}

func TestEventsOfOtherKindsAreLeftOut(t *testing.T) {
	config := func(kind string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind})
		if kind == "Table" {
			u.SetAPIVersion("meta.k8s.io/v1")
		}
		u.SetNamespace("ns")
		u.SetName(strings.ToLower(kind))
		u.SetResourceVersion("11")
		return u
	}
	for name, c := range map[string]struct {
		expected runtime.Object
		events   []runtime.Object
		want     string
	}{
		"a Go type":     {&corev1.Pod{}, []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", ResourceVersion: "11"}}, podAt("right", 12)}, "ns/right"},
		"a kind":        {config("Config"), []runtime.Object{config("Other"), config("Config")}, "ns/config"},
		"any, no table": {nil, []runtime.Object{config("Table"), config("Other")}, "ns/other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, held := overBoth(t, c.expected, func() *script {
				return &script{
					list: func(metav1.ListOptions) (*corev1.PodList, error) { return podsAt(10), nil },
					watch: func(metav1.ListOptions) (events []watch.Event, _ error) {
						for _, obj := range c.events {
							events = append(events, watch.Event{Type: watch.Added, Object: obj})
						}
						return events, nil
					},
				}
			})
			wantSame(t, "held", held)
			if len(held[1]) != 2 || held[1][1] != c.want {
				t.Errorf("held %q, want %s", held[1], c.want)
			}
		})
	}
}

// A ListerWatcher that panics ends the program, unless runtime.ReallyCrash is false. In
// client-go it is then asked again.
func TestD24_AListerWatcherThatPanickedIsNotAskedAgain(t *testing.T) {
	defer func(really bool, handlers []func(context.Context, any)) {
		utilruntime.ReallyCrash, utilruntime.PanicHandlers = really, handlers
	}(utilruntime.ReallyCrash, utilruntime.PanicHandlers)
	utilruntime.ReallyCrash = false
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			var thrown recording
			utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, v any) { thrown.add("", "%v", v) }}
			inf := make(&script{list: func(metav1.ListOptions) (*corev1.PodList, error) { panic("on purpose") }}, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			start(t, inf)
			<-time.After(time.Minute)
			if got := thrown.take(); len(got) == 0 || got[0] != ": on purpose" || (len(got) > 1) != (name == "client-go") {
				t.Errorf("%s: the panic handlers received %q", name, got)
			}
			if inf.IsStopped() {
				t.Errorf("%s: it stopped before its context ended", name)
			}
		})
	}
}
