package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var configMaps = wire.MustOf[*corev1.ConfigMap]()

// TestL01_W02_Forms mirrors by both ways to fetch the state, in both encodings, as typed,
// unstructured and metadata objects, and follows what changes.
func TestL01_W02_Forms(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		for i := range 5 {
			w.create(fmt.Sprintf("first-%d", i), "0")
		}
		for _, mode := range []reflector.Mode{reflector.StreamingOn, reflector.StreamingOff} {
			for _, encoding := range []wire.Encoding{wire.Protobuf, wire.JSON} {
				name := fmt.Sprintf("%s, streaming %s", encoding, mode)
				t.Run("typed, "+name, func(t *testing.T) { follow(t, w, configMaps.Encoded(encoding), mode) })
				t.Run("metadata, "+name, func(t *testing.T) { follow(t, w, wire.Metadata(configMaps.Resource).Encoded(encoding), mode) })
			}
			t.Run("unstructured, streaming "+mode.String(), func(t *testing.T) { follow(t, w, wire.Unstructured(configMaps.Resource), mode) })
		}
	})
}

func follow[T metav1.Object](t *testing.T, w writer, res wire.Resource[T], mode reflector.Mode) {
	w.t = t
	m := startMirror(t, w.config, res, mirrorOptions[T]{
		selection: object.Selection{Namespace: w.namespace}, reflector: reflector.Options[T]{Streaming: mode},
	})
	m.same(t, w.server)
	w.create("changes", "0")
	w.update("changes", "1")
	w.delete("changes")
	m.reaches(t, w.create("last", "0"))
	for _, what := range []string{"add changes", "update changes", "delete changes", "add last"} {
		m.receives(t, what)
	}
	w.delete("last")
	m.receives(t, "delete last")
	m.same(t, w.server)
	if c := m.reflector().Counts; c.Lists != 1 || (c.Streamed == 1) != (mode == reflector.StreamingOn) {
		t.Errorf("%d lists, %d of them streamed", c.Lists, c.Streamed)
	}
}

// TestGap makes changes while the watch is cut, and has the server compact them.
func TestGap(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		proxy := controlplane.StartProxy(t, s.address)
		w := writer{t, s}
		kept := w.create("kept", "0")
		w.create("changed", "0")
		w.create("gone", "0")
		w.create("replaced", "0")
		config, asked := record(proxy.Config(s.config))
		m := startMirror(t, config, configMaps, mirrorOptions[*corev1.ConfigMap]{
			selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*corev1.ConfigMap]{Streaming: reflector.StreamingOff},
		})
		c := startController(t, m)
		before, _ := m.Get(object.Key{Namespace: s.namespace, Name: "kept"})
		m.watches(t)
		seen := m.reflector().Mark.Version

		api := wire.For(newClient(t, s), configMaps)
		first, page, err := stream.List(patience.Context(t), api, object.ListOptions{Selection: object.Selection{Namespace: s.namespace}, Limit: 2})
		if err != nil || len(first) != 2 || page.Continue == "" {
			t.Fatalf("a page of %d, %v", len(first), err)
		}

		if err := proxy.Refuse(true); err != nil {
			t.Fatal(err)
		}
		proxy.Cut()
		w.update("changed", "1")
		w.delete("gone")
		w.delete("replaced")
		w.create("replaced", "1")
		added := w.create("added", "0")
		s.forget(t)
		if err := proxy.Refuse(false); err != nil {
			t.Fatal(err)
		}
		m.reaches(t, added)
		m.same(t, s)
		c.reconciled(t, m.versions())

		t.Run("L01 the first list takes any state", func(t *testing.T) {
			if len(asked.with("resourceVersion=0")) != 1 {
				t.Errorf("asked for %q", asked.urls)
			}
		})
		t.Run("L02 L03 a relist asks for what is not older", func(t *testing.T) {
			lists := asked.lists(t)
			if len(lists) < 2 {
				t.Fatalf("asked for %q", asked.urls)
			}
			if v := object.Version(lists[1].Get("resourceVersion")); v == "" || v == "0" || seen.After(v) {
				t.Errorf("the relist asked for %v; %s was seen", lists[1], seen)
			}
			if len(asked.with("resourceVersion=0")) != 1 {
				t.Error("a relist took any state")
			}
		})
		t.Run("L06 an expired token is refused", func(t *testing.T) {
			_, _, err := stream.List(patience.Context(t), api, object.ListOptions{Selection: object.Selection{Namespace: s.namespace}, Limit: 2, Continue: page.Continue})
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("got %v", err)
			}
		})
		t.Run("L06 a mirror starts again, and then without pages", func(t *testing.T) {
			opts := plain(s, func(o *reflector.Options[*corev1.ConfigMap]) { o.PageSize = 2 })
			spoiled := 0
			opts.source.Hook = func(verb wire.Verb, query url.Values) {
				if verb != wire.VerbList {
					return
				}
				query.Del("resourceVersion") // or else it would come in one page
				if query.Get("continue") != "" && spoiled < 3 {
					spoiled++
					query.Set("continue", page.Continue)
				}
			}
			config, asked := record(s.config)
			m := startMirror(t, config, configMaps, opts)
			m.same(t, s)
			if st := m.reflector(); st.Unpaged == "" || st.Counts.Ended[reflector.Expired] != 3 || st.Counts.Lists != 1 {
				t.Errorf("%d lists, ended for %v, unpaged because %q", st.Counts.Lists, st.Counts.Ended, st.Unpaged)
			}
			lists := asked.lists(t)
			if last := lists[len(lists)-1]; last.Has("limit") || last.Has("continue") || len(lists) != 7 {
				t.Errorf("asked for %v", lists)
			}
			for _, name := range []string{"kept", "changed", "replaced", "added"} {
				m.receives(t, "add "+name)
				if n := m.times("add " + name); n != 1 {
					t.Errorf("received %d additions of %s", n, name)
				}
			}
		})
		t.Run("L15 what did not change stays", func(t *testing.T) {
			after, _ := m.Get(object.Key{Namespace: s.namespace, Name: "kept"})
			if before != after {
				t.Error("the object was decoded again")
			}
			if m.times("update kept") != 0 || kept.Name != "kept" {
				t.Error("an update was delivered")
			}
		})
		t.Run("W08 the watch expired", func(t *testing.T) {
			if c := m.reflector().Counts; c.Ended[reflector.Expired] == 0 || c.Lists < 2 {
				t.Errorf("ended for %v, %d lists", c.Ended, c.Lists)
			}
		})
		t.Run("W17 a recreated object is a deletion and an addition", func(t *testing.T) {
			patience.Until(t, "both", func() bool { return m.times("delete unknown replaced") == 1 && m.times("add replaced") == 2 })
		})
		t.Run("W18 an unobserved deletion is delivered", func(t *testing.T) { m.receives(t, "delete unknown gone") })
	})
}

func newClient(t *testing.T, s server) *wire.Client {
	t.Helper()
	client, err := wire.New(s.config, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// TestLists asks by the wire alone.
func TestLists(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		a := w.create("a", "0")
		b := w.create("b", "0")
		w.create("c", "1")
		api := wire.For(newClient(t, s), configMaps)
		here := object.Selection{Namespace: s.namespace}
		count := func(opts object.ListOptions) (int, object.Page) {
			t.Helper()
			opts.Namespace = s.namespace
			items, page, err := stream.List(patience.Context(t), api, opts)
			if err != nil {
				t.Error(err)
			}
			return len(items), page
		}
		t.Run("L01", func(t *testing.T) {
			if n, page := count(object.ListOptions{}); n != 3 || object.Version(b.ResourceVersion).After(page.Version) {
				t.Errorf("%d at %s", n, page.Version)
			}
			if n, _ := count(object.ListOptions{Version: object.Version(b.ResourceVersion), Match: object.Exact}); n != 2 {
				t.Errorf("%d at the version of the second", n)
			}
			if n, _ := count(object.ListOptions{Version: object.Version(a.ResourceVersion), Match: object.NotOlderThan}); n != 3 {
				t.Errorf("%d not older than the first", n)
			}
		})
		t.Run("L04", func(t *testing.T) {
			if n, page := count(object.ListOptions{Version: "0", Limit: 1}); n != 3 || page.Continue != "" {
				t.Errorf("%d in a page at 0", n)
			}
		})
		t.Run("L05 L07", func(t *testing.T) {
			total, pages, token := 0, 0, ""
			for {
				n, page := count(object.ListOptions{Limit: 1, Continue: token})
				total, pages, token = total+n, pages+1, page.Continue
				if token == "" || pages > 5 {
					break
				}
			}
			if total != 3 || pages != 3 {
				t.Errorf("%d in %d pages", total, pages)
			}
		})
		t.Run("L12", func(t *testing.T) {
			wrong := configMaps.Resource
			wrong.Kind = "Pebble"
			source, err := stream.NewSource(wire.For(newClient(t, s), wire.Unstructured(wrong)), here, stream.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := source.Collect(patience.Context(t), object.ListOptions{}); !errors.Is(err, object.ErrWrongKind) {
				t.Errorf("got %v", err)
			}
		})
		t.Run("L13", func(t *testing.T) {
			_, _, err := stream.List(patience.Context(t), api, object.ListOptions{Selection: here, Version: "999999999"})
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || status.Status().Code != 504 {
				t.Errorf("got %v", err)
			}
		})
		t.Run("L14", func(t *testing.T) {
			if first, second := object.Version(a.ResourceVersion), object.Version(b.ResourceVersion); !second.After(first) {
				t.Errorf("%s is not after %s", second, first)
			}
		})
	})
}

// TestWatches mistreats mirrors by what they ask for and by what lies in between.
func TestWatches(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "x")
		here := object.Selection{Namespace: s.namespace}
		t.Run("W06 a refused streaming list", func(t *testing.T) {
			m := startMirror(t, s.config, configMaps, mirrorOptions[*corev1.ConfigMap]{selection: here, source: stream.Options{
				Hook: func(_ wire.Verb, query url.Values) {
					if query.Has("sendInitialEvents") {
						query.Del("resourceVersionMatch") // which it needs
					}
				},
			}})
			m.same(t, s)
			if st := m.reflector(); st.Counts.Streamed != 0 || st.Streaming.Cause == "" {
				t.Errorf("%+v", st.Streaming)
			}
		})
		t.Run("W09 refused connections", func(t *testing.T) {
			proxy := controlplane.StartProxy(t, s.address)
			m := startMirror(t, proxy.Config(s.config), configMaps, mirrorOptions[*corev1.ConfigMap]{selection: here})
			m.watches(t)
			if err := proxy.Refuse(true); err != nil {
				t.Fatal(err)
			}
			proxy.Cut()
			patience.Until(t, "a refused connection", func() bool { return m.reflector().Counts.Ended[reflector.Refused] > 0 })
			added := w.create("missed", "x")
			if err := proxy.Refuse(false); err != nil {
				t.Fatal(err)
			}
			m.reaches(t, added)
			if c := m.reflector().Counts; c.Lists != 1 {
				t.Errorf("%d lists", c.Lists)
			}
		})
		for code, reason := range map[int]reflector.Reason{429: reflector.Throttled, 503: reflector.Unavailable} {
			t.Run(fmt.Sprintf("W09 a watch is answered with %d", code), func(t *testing.T) {
				var refused atomic.Bool
				config := through(s.config, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
					res, err := next.RoundTrip(req)
					if err == nil && req.URL.Query().Has("watch") && refused.CompareAndSwap(false, true) {
						res.Body.Close()
						res.StatusCode, res.Body, res.ContentLength = code, http.NoBody, 0
						res.Header.Set("Retry-After", "1")
					}
					return res, err
				})
				m := startMirror(t, config, configMaps, plain(s, nil))
				var asked time.Duration
				patience.Until(t, "a wait", func() bool {
					st := m.reflector()
					asked = st.Until.Sub(st.Since)
					return st.State == reflector.BackingOff
				})
				if asked < time.Second {
					t.Errorf("Retry-After is a second, but it waits for %s", asked)
				}
				m.reaches(t, writer{t, s}.create(fmt.Sprint("after-", code), "x"))
				if c := m.reflector().Counts; c.Lists != 1 || c.Ended[reason] != 1 {
					t.Errorf("%d lists, ended for %v", c.Lists, c.Ended)
				}
			})
		}
		t.Run("W11 the timeout", func(t *testing.T) {
			m := startMirror(t, s.config, configMaps, mirrorOptions[*corev1.ConfigMap]{
				selection: here, reflector: reflector.Options[*corev1.ConfigMap]{MinWatchTimeout: time.Second},
			})
			patience.Until(t, "a third watch", func() bool { return m.reflector().Counts.Watches >= 3 })
			m.reaches(t, w.create("later", "x"))
			if c := m.reflector().Counts; c.Lists != 1 || c.Ended[reflector.Closed] == 0 {
				t.Errorf("%d lists, ended for %v", c.Lists, c.Ended)
			}
		})
		t.Run("W13 silence", func(t *testing.T) {
			proxy := controlplane.StartProxy(t, s.address)
			m := startMirror(t, proxy.Config(s.config), configMaps, mirrorOptions[*corev1.ConfigMap]{
				selection: here, reflector: reflector.Options[*corev1.ConfigMap]{Silence: time.Second},
			})
			m.watches(t)
			patience.Until(t, "a silent watch to end", func() bool { return m.reflector().Counts.Ended[reflector.Silent] > 0 })
			m.reaches(t, w.create("after-silence", "x"))
			if c := m.reflector().Counts; c.Lists != 1 {
				t.Errorf("%d lists", c.Lists)
			}
		})
		t.Run("W16 in and out of the selector", func(t *testing.T) {
			sel := here
			sel.Labels = "value=x"
			m := startMirror(t, s.config, configMaps, mirrorOptions[*corev1.ConfigMap]{selection: sel})
			m.watches(t)
			w.update("a", "y")
			m.receives(t, "delete a")
			w.update("a", "x")
			patience.Until(t, "it to be back", func() bool { return m.times("add a") == 2 })
		})
	})
}
