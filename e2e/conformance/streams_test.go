package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inBoth runs a test in both encodings.
func inBoth(t *testing.T, test func(t *testing.T, res wire.Resource[*corev1.ConfigMap])) {
	for _, encoding := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		t.Run(string(encoding), func(t *testing.T) { test(t, configMaps.Encoded(encoding)) })
	}
}

// plain are the options of a mirror that lists.
func plain(s server, change func(*reflector.Options[*corev1.ConfigMap])) mirrorOptions[*corev1.ConfigMap] {
	opts := mirrorOptions[*corev1.ConfigMap]{
		selection: object.Selection{Namespace: s.namespace},
		reflector: reflector.Options[*corev1.ConfigMap]{Streaming: reflector.StreamingOff},
	}
	if change != nil {
		change(&opts.reflector)
	}
	return opts
}

// isEnd reports whether an event ends the initial ones.
func (f frame) isEnd() bool {
	return f.typ == "BOOKMARK" && bytes.Contains(f.raw, []byte("k8s.io/initial-events-end"))
}

// W01: a watch without a version begins with the state, one with a version just there. A
// mirror whose watches are made to begin with the state takes that for no news.
func TestW01_WhereWatchesBegin(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		a := w.create("a", "0")
		w.create("b", "0")
		w.update("a", "1")
		api := wire.For(newClient(t, s), configMaps)
		begins := func(version object.Version, want ...string) {
			t.Helper()
			watch, err := stream.Watch(patience.Context(t), api, object.WatchOptions{Selection: object.Selection{Namespace: s.namespace}, Version: version})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Close()
			var got []string
			for len(got) < len(want) {
				events, err := watch.Next()
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					got = append(got, e.Kind.String()+" "+e.Item.Key.Name+"="+e.Item.Object.Data["value"])
				}
			}
			if !version.Known() {
				slices.Sort(got) // the state has no order
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("from %q it began with %v", version, got)
			}
		}
		begins("", "Added a=1", "Added b=0")
		begins("0", "Added a=1", "Added b=0")
		begins(object.Version(a.ResourceVersion), "Added b=0", "Updated a=1")

		opts := plain(s, nil)
		opts.source.Hook = func(verb wire.Verb, query url.Values) {
			if verb == wire.VerbWatch {
				query.Del("resourceVersion")
			}
		}
		m := startMirror(t, s.config, configMaps, opts)
		m.reaches(t, w.create("c", "0"))
		patience.Until(t, "what was no news to be counted", func() bool { return m.reflector().Counts.Stale >= 2 })
		m.same(t, s)
		if m.times("add a") != 1 || m.times("add b") != 1 || m.times("update a") != 0 {
			t.Error("it received what it held")
		}
	})
}

// W02, W03: nothing of a streaming list counts before the bookmark that ends it, whatever
// plain bookmarks come before.
func TestW02_W03_PlainBookmarksEndNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		for i := range 3 {
			w.create(fmt.Sprint("first-", i), "0")
		}
		inBoth(t, func(t *testing.T, res wire.Resource[*corev1.ConfigMap]) {
			release := make(chan struct{})
			b := &between{watch: func(n int, _ url.Values) *edit {
				if n > 1 {
					return nil
				}
				return &edit{each: func(f frame) []frame {
					if f.isEnd() {
						<-release
						return []frame{f}
					}
					return []frame{f, bookmark("999999998")}
				}}
			}}
			m := startMirror(t, b.put(s.config), res, mirrorOptions[*corev1.ConfigMap]{
				selection: object.Selection{Namespace: s.namespace}, unsynced: true,
				reflector: reflector.Options[*corev1.ConfigMap]{Streaming: reflector.StreamingOn},
			})
			patience.Until(t, "three plain bookmarks", func() bool { return m.reflector().Counts.Bookmarks == 3 })
			if st := m.reflector(); st.Synced || st.State != reflector.Streaming || st.Mark.Version != "" || m.Len() != 0 {
				t.Errorf("it took a plain bookmark for the end: %s at %q with %d objects", st, st.Mark.Version, m.Len())
			}
			close(release)
			if err := m.WaitSynced(patience.Context(t)); err != nil {
				t.Fatal(err)
			}
			m.same(t, s)
			if v := m.reflector().Mark.Version; v == "999999998" || !v.Known() {
				t.Errorf("it resumes at %q", v)
			}
		})
	})
}

// W05: the bookmark that ends a streaming list is lost on the way.
func TestW05_TheBookmarkNeverComes(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		inBoth(t, func(t *testing.T, res wire.Resource[*corev1.ConfigMap]) {
			var relist atomic.Bool
			b := &between{watch: func(_ int, query url.Values) *edit {
				if relist.CompareAndSwap(true, false) {
					return &edit{before: []frame{failure(http.StatusGone, metav1.StatusReasonExpired)}, end: true}
				}
				return &edit{each: func(f frame) []frame {
					if f.isEnd() {
						return nil
					}
					return []frame{f}
				}}
			}}
			config, asked := record(b.put(s.config))
			m := startMirror(t, config, res, mirrorOptions[*corev1.ConfigMap]{
				selection: object.Selection{Namespace: s.namespace},
				reflector: reflector.Options[*corev1.ConfigMap]{InitialSilence: 300 * time.Millisecond, MinWatchTimeout: time.Second},
			})
			m.same(t, s)
			if st := m.reflector(); st.Counts.Streamed != 0 || st.Counts.Ended[reflector.NoBookmark] != 1 || st.Streaming.InUse || st.Streaming.Cause == "" {
				t.Errorf("%+v, ended for %v", st.Streaming, st.Counts.Ended)
			}
			// The next list does not try again.
			relist.Store(true)
			patience.Until(t, "another list", func() bool { return m.reflector().Counts.Lists == 2 })
			if n := len(asked.with("sendInitialEvents=true")); n != 1 {
				t.Errorf("a streaming list was asked for %d times", n)
			}
		})
	})
}

// W07: a bookmark of the server's own moves the version of a mirror in which nothing happens,
// and nothing else.
func TestW07_BookmarksMoveTheVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		a := w.create("a", "0")
		elsewhere := w
		elsewhere.namespace = s.newNamespace(t)
		// The real server sends a bookmark two seconds before it ends a watch.
		m := startMirror(t, s.config, configMaps, plain(s, func(o *reflector.Options[*corev1.ConfigMap]) { o.MinWatchTimeout = 3 * time.Second }))
		m.watches(t)
		target := elsewhere.create("elsewhere", "0").ResourceVersion
		patience.Until(t, "a bookmark past what happened elsewhere", func() bool {
			st := m.reflector()
			return st.Counts.Bookmarks > 0 && !object.Version(target).After(st.Mark.Version)
		})
		if err := m.WaitFor(patience.Context(t), object.Version(target)); err != nil {
			t.Error(err)
		}
		if c := m.reflector().Counts; c.Events != 0 || c.Lists != 1 || m.Len() != 1 || m.times("update a") != 0 {
			t.Errorf("%d events, %d lists, %d objects", c.Events, c.Lists, m.Len())
		}
		if held, ok := m.Get(object.Key{Namespace: s.namespace, Name: "a"}); !ok || held.ResourceVersion != a.ResourceVersion {
			t.Errorf("held is %v", held)
		}
	})
}

// W10: an error 500 inside the stream is a reason to watch again, and for so long only.
func TestW10_ServerErrorsInTheStream(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		inBoth(t, func(t *testing.T, res wire.Resource[*corev1.ConfigMap]) {
			w.t = t
			broken := &edit{before: []frame{failure(http.StatusInternalServerError, metav1.StatusReasonInternalError)}, end: true}
			twice := &between{watch: func(n int, _ url.Values) *edit {
				if n <= 2 {
					return broken
				}
				return nil
			}}
			m := startMirror(t, twice.put(s.config), res, plain(s, nil))
			m.reaches(t, w.create("within-"+w.unique(), "0"))
			if c := m.reflector().Counts; c.Lists != 1 || c.Ended[reflector.ServerError] != 2 || c.Waits < 2 {
				t.Errorf("%d lists, %d waits, ended for %v", c.Lists, c.Waits, c.Ended)
			}
			var fixed atomic.Bool
			lasting := &between{watch: func(int, url.Values) *edit {
				if fixed.Load() {
					return nil
				}
				return broken
			}}
			m = startMirror(t, lasting.put(s.config), res, plain(s, func(o *reflector.Options[*corev1.ConfigMap]) { o.ServerErrorsFor = 50 * time.Millisecond }))
			patience.Until(t, "another list", func() bool { return m.reflector().Counts.Lists >= 2 })
			fixed.Store(true)
			m.reaches(t, w.create("after-"+w.unique(), "0"))
			m.same(t, s)
		})
	})
}

// unique returns a name that the test has not used.
func (w writer) unique() string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(w.t.Name()))
}

// W12: watches that end at once, with nothing in them.
func TestW12_ShortWatches(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		inBoth(t, func(t *testing.T, res wire.Resource[*corev1.ConfigMap]) {
			w.t = t
			var fixed atomic.Bool
			b := &between{watch: func(int, url.Values) *edit {
				if fixed.Load() {
					return nil
				}
				return &edit{end: true}
			}}
			config, asked := record(b.put(s.config))
			m := startMirror(t, config, res, plain(s, nil))
			patience.Until(t, "another list, and an error to see", func() bool {
				st := m.reflector()
				return st.Counts.Lists >= 2 && st.Failing && st.Counts.Ended[reflector.Short] > 0
			})
			if _, ok := m.Get(object.Key{Namespace: s.namespace, Name: "a"}); !ok {
				t.Error("the last state is not readable")
			}
			// Each has a wait behind it: there is no hot loop.
			c := m.reflector().Counts
			if n := int64(len(asked.with("watch="))); n > c.Waits+2 {
				t.Errorf("%d watches and %d waits", n, c.Waits)
			}
			fixed.Store(true)
			m.reaches(t, w.create(w.unique(), "0"))
			if m.times("add a") != 1 || m.times("update a") != 0 {
				t.Error("an unchanged object was delivered")
			}
		})
	})
}

// W14, W15: events come twice, late and again, and deletions with the version of the
// deletion, or, as of old servers, with that of the object.
func TestW14_W15_DuplicatesAndDeletions(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprintf("old server %t", old), func(t *testing.T) {
				inBoth(t, func(t *testing.T, res wire.Resource[*corev1.ConfigMap]) {
					w := writer{t, s}
					var past []frame
					deleted := make(chan *corev1.ConfigMap, 1)
					b := &between{watch: func(int, url.Values) *edit {
						return &edit{each: func(f frame) []frame {
							if f.typ == "BOOKMARK" {
								return []frame{f}
							}
							cm := f.configMap(t)
							if f.typ == "DELETED" {
								deleted <- cm
								if old { // it has its last state's version
									cm = cm.DeepCopy()
									cm.ResourceVersion = past[len(past)-1].configMap(t).ResourceVersion
									f = frame{typ: f.typ, obj: cm}
								}
								// A late one must not revive it. The client holds no version
								// any more to compare with, but the stream's.
								return append([]frame{f, f}, past...)
							}
							out := append([]frame{f, f}, past...)
							past = append(past, f)
							return append(out, f)
						}}
					}}
					m := startMirror(t, b.put(s.config), res, plain(s, nil))
					m.watches(t)
					w.create("twice", "0")
					last := w.update("twice", "1")
					w.delete("twice")
					m.receives(t, "delete twice")
					w.create("after", "0")
					m.receives(t, "add after")
					for what, n := range map[string]int{"add twice": 1, "update twice": 1, "delete twice": 1, "add after": 1} {
						if got := m.times(what); got != n {
							t.Errorf("received %q %d times", what, got)
						}
					}
					cm := <-deleted
					if !object.Version(cm.ResourceVersion).After(object.Version(last.ResourceVersion)) || cm.Data["value"] != "1" {
						t.Errorf("Deleted had %q at %s; the last state was at %s", cm.Data["value"], cm.ResourceVersion, last.ResourceVersion)
					}
					m.same(t, s)
					if c := m.reflector().Counts; c.Stale < 5 || c.Lists != 1 {
						t.Errorf("%d stale events, %d lists", c.Stale, c.Lists)
					}
					w.delete("after")
				})
			})
		}
	})
}

// W20, W21: events that are invalid, of an unknown type, or of another kind.
func TestW20_W21_StrangeEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "strange", UID: "u", ResourceVersion: "999999998"}}
		instead := func(strange frame, times int) *between {
			return &between{watch: func(n int, _ url.Values) *edit {
				if n > times {
					return nil
				}
				return &edit{before: []frame{strange}}
			}}
		}
		inBoth(t, func(t *testing.T, res wire.Resource[*corev1.ConfigMap]) {
			w.t = t
			start := func(t *testing.T, b *between) *mirror[*corev1.ConfigMap] {
				m := startMirror(t, b.put(s.config), res, plain(s, nil))
				w.t = t
				m.reaches(t, w.create(w.unique(), "0"))
				m.same(t, s)
				return m
			}
			t.Run("W21 an unknown type", func(t *testing.T) {
				m := start(t, instead(frame{typ: "WONDERED", obj: bookmark("999999998").obj}, 1))
				if c := m.reflector().Counts; c.Unknown != 1 || c.Lists != 1 || c.Waits != 0 {
					t.Errorf("%d unknown, %d lists, %d waits", c.Unknown, c.Lists, c.Waits)
				}
			})
			t.Run("W21 another kind", func(t *testing.T) {
				m := start(t, instead(frame{typ: "ADDED", obj: secret}, 1))
				if c := m.reflector().Counts; c.Ended[reflector.WrongKind] != 1 || c.Lists != 1 || m.times("add strange") != 0 {
					t.Errorf("ended for %v, %d lists", c.Ended, c.Lists)
				}
			})
			broken := frame{all: []byte("\xff\xff\xff\xffnonsense\n")} // too long a length, or invalid JSON
			t.Run("W20 no event at all", func(t *testing.T) {
				m := start(t, instead(broken, 2))
				if c := m.reflector().Counts; c.Ended[reflector.Corrupt] != 2 || c.Lists != 1 {
					t.Errorf("ended for %v, %d lists", c.Ended, c.Lists)
				}
			})
			t.Run("W20 again and again", func(t *testing.T) {
				m := start(t, instead(broken, 4))
				m.watches(t)
				patience.Until(t, "the fourth", func() bool { return m.reflector().Counts.Ended[reflector.Corrupt] == 4 })
				if c := m.reflector().Counts; c.Lists != 2 {
					t.Errorf("ended for %v, %d lists", c.Ended, c.Lists)
				}
			})
		})
	})
}
