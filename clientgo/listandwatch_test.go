package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// listsAndWatches is what both reflectors have in common.
type listsAndWatches interface {
	ListAndWatchWithContext(context.Context) error
	LastSyncResourceVersion() string
}

func statusEvent(err *apierrors.StatusError) watch.Event {
	return watch.Event{Type: watch.Error, Object: new(err.Status())}
}

// failingResync is a store whose Resync fails.
type failingResync struct{ cache.Store }

func (failingResync) Resync() error { return errors.New("no") }

// versioned is a store that is given versions.
type versioned struct {
	cache.Store
	versions []string
}

func (v *versioned) UpdateResourceVersion(version string) { v.versions = append(v.versions, version) }

// closing is a script whose watches end after their events.
type closing struct{ *script }

func (c closing) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	w, err := c.script.Watch(opts)
	if err == nil {
		w.Stop()
	}
	return w, err
}

// ListAndWatch returns when and what client-go's does. Each case is run twice in a row: what the
// second run asks for depends on the first.
func TestListAndWatchReturnsWhenClientGosDoes(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("etcd"))
	first := func(events []watch.Event, err error) func(metav1.ListOptions) ([]watch.Event, error) {
		n := 0
		return func(metav1.ListOptions) ([]watch.Event, error) {
			if n++; n == 1 {
				return events, err
			}
			return nil, nil
		}
	}
	added := watch.Event{Type: watch.Added, Object: podAt("new", 11)}
	for name, c := range map[string]struct {
		watch    func() func(metav1.ListOptions) ([]watch.Event, error)
		pageSize int64
		retry    time.Duration
		resync   time.Duration
		closes   bool
		limit    bool // the list is paged if it may be
		store    func(cache.Store) cache.Store
	}{
		"until the context is done": {},
		"the list is paged": {limit: true, watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first([]watch.Event{added, statusEvent(expired)}, nil)
		}},
		"pages of a size": {pageSize: 2, limit: true, watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first([]watch.Event{added, statusEvent(expired)}, nil)
		}},
		"a watch is refused": {watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first(nil, apierrors.NewBadRequest("no"))
		}},
		"a watch is refused as expired": {watch: func() func(metav1.ListOptions) ([]watch.Event, error) { return first(nil, expired) }},
		"a watch ends in an error": {watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first([]watch.Event{added, statusEvent(apierrors.NewBadRequest("no"))}, nil)
		}},
		"a watch expires": {watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first([]watch.Event{added, statusEvent(expired)}, nil)
		}},
		"an internal error": {watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first([]watch.Event{statusEvent(internal)}, nil)
		}},
		"an internal error, for a while": {retry: 10 * time.Second, watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first([]watch.Event{statusEvent(internal)}, nil)
		}},
		"a watch is throttled": {watch: func() func(metav1.ListOptions) ([]watch.Event, error) {
			return first(nil, apierrors.NewTooManyRequests("later", 1))
		}},
		"a watch is closed at once": {closes: true},
		"a resync fails":            {resync: time.Minute, store: func(s cache.Store) cache.Store { return failingResync{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			withoutErrorHandlers(t)
			var seen [2][]string
			for i := range 2 {
				synctest.Test(t, func(t *testing.T) {
					s := &script{list: page, watch: first(nil, nil)}
					if c.watch != nil {
						s.watch = c.watch()
					}
					if !c.limit {
						s.list = func(metav1.ListOptions) (*corev1.PodList, error) { return podsAt(10, podAt("a", 1)), nil }
					}
					list, watched := s.list, false
					s.list = func(opts metav1.ListOptions) (*corev1.PodList, error) {
						l, err := list(opts)
						if watched {
							l.ResourceVersion = "20"
						}
						return l, err
					}
					events := s.watch
					s.watch = func(opts metav1.ListOptions) ([]watch.Event, error) {
						watched = true
						return events(opts)
					}
					var lw cache.ListerWatcher = s
					if c.closes {
						lw = closing{s}
					}
					store := cache.NewStore(cache.MetaNamespaceKeyFunc)
					if c.store != nil {
						store = c.store(store)
					}
					var r listsAndWatches
					if i == 0 {
						theirs := cache.NewReflector(lw, &corev1.Pod{}, store, c.resync)
						theirs.WatchListPageSize, theirs.MaxInternalErrorRetryDuration = c.pageSize, c.retry
						r = theirs
					} else {
						ours := clientgo.NewReflector(lw, &corev1.Pod{}, store, c.resync)
						ours.WatchListPageSize, ours.MaxInternalErrorRetryDuration = c.pageSize, c.retry
						r = ours
					}
					for range 2 {
						ctx, cancel := context.WithCancelCause(t.Context())
						var err error
						var running sync.WaitGroup
						running.Go(func() { err = r.ListAndWatchWithContext(ctx); s.asked.add("", "returned") })
						<-time.After(5 * time.Minute)
						s.asked.add("", "5 minutes passed")
						cancel(errors.New("enough"))
						running.Wait()
						lines := s.asked.take()
						if i == 1 { // D20
							for i := range lines {
								lines[i] = strings.Replace(lines[i], "NotOlderThan", "", 1)
							}
						}
						seen[i] = append(append(seen[i], lines...), fmt.Sprint("error: ", err), "at "+r.LastSyncResourceVersion())
					}
				})
			}
			wantSame(t, "asked and returned", seen)
		})
	}
}

// A store that is given versions gets that of each event and bookmark, also where several
// arrived at once, and none of a list.
func TestAStoreIsGivenTheVersionOfEachEvent(t *testing.T) {
	var given [2][]string
	for i := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := &script{list: page, watch: func(metav1.ListOptions) ([]watch.Event, error) {
				return []watch.Event{
					{Type: watch.Added, Object: podAt("d", 10)}, // the version of the list
					{Type: watch.Added, Object: podAt("e", 11)}, {Type: watch.Modified, Object: podAt("e", 12)},
					{Type: watch.Bookmark, Object: podAt("", 13)}, {Type: watch.Deleted, Object: podAt("e", 14)},
				}, nil
			}}
			store := &versioned{Store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
			var r listsAndWatches = cache.NewReflector(s, &corev1.Pod{}, store, 0)
			if i == 1 {
				r = clientgo.NewReflector(s, &corev1.Pod{}, store, 0)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = r.ListAndWatchWithContext(ctx) })
			synctest.Wait()
			cancel()
			running.Wait()
			given[i] = store.versions
		})
	}
	wantSame(t, "versions", given)
	if !slices.Equal(given[1], []string{"10", "11", "12", "13", "14"}) {
		t.Errorf("given %q", given[1])
	}
}

// A corrupt object that the server deleted unread is not in the store after the next list, which
// comes at once.
func TestAnErrorOfAnObjectThatCannotBeReadIsFollowedByAListAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		s := &script{list: func(metav1.ListOptions) (*corev1.PodList, error) {
			lists++
			return podsAt(10*lists, podAt("a", 1)), nil
		}}
		s.watch = func(opts metav1.ListOptions) ([]watch.Event, error) {
			if opts.ResourceVersion == "20" {
				return nil, nil
			}
			return []watch.Event{{Type: watch.Added, Object: podAt("corrupt", 11)}, {Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonStoreReadError, Message: "corrupt object has been deleted"}}}, nil
		}
		inf := clientgo.NewSharedIndexInformer(s, &corev1.Pod{}, 0, cache.Indexers{})
		began := time.Now()
		start(t, inf)
		synctest.Wait()
		if keys := inf.GetStore().ListKeys(); lists != 2 || !slices.Equal(keys, []string{"ns/a"}) || !time.Now().Equal(began) {
			t.Errorf("%d lists after %v, held %q", lists, time.Since(began), keys)
		}
	})
}

// All fields of a back-off count, as in client-go, for watches and for streaming lists.
func TestAReflectorWaitsAsItsBackoffSays(t *testing.T) {
	withoutErrorHandlers(t)
	for _, streams := range []bool{false, true} {
		var waits [2][]string
		for i := range 2 {
			synctest.Test(t, func(t *testing.T) {
				last := time.Now()
				s := &script{
					list: func(metav1.ListOptions) (*corev1.PodList, error) { return podsAt(10), nil },
					watch: func(metav1.ListOptions) ([]watch.Event, error) {
						waits[i] = append(waits[i], time.Since(last).String())
						last = time.Now()
						return nil, syscall.ECONNREFUSED
					},
				}
				var lw cache.ListerWatcher = s
				if streams {
					lw = &streamer{script: s}
				}
				options := cache.ReflectorOptions{Backoff: &wait.Backoff{Duration: 10 * time.Second, Cap: time.Minute, Factor: 1.5, Steps: 100}}
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				var r anyReflector = cache.NewReflectorWithOptions(lw, &corev1.Pod{}, store, options)
				if i == 1 {
					r = clientgo.NewReflectorWithOptions(lw, &corev1.Pod{}, store, options)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				r.RunWithContext(ctx)
			})
		}
		wantSame(t, "waits", waits)
		if want := []string{"0s", "10s", "15s", "22.5s", "33.75s", "50.625s"}; !slices.Equal(waits[1][:6], want) {
			t.Errorf("waited %q", waits[1])
		}
	}
}
