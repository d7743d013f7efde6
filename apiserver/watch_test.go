package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

func TestW01_WatchStartsWithExistingObjectsOrAtAVersion(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	a := fill(t, s, pod("a"))
	b := fill(t, s, pod("b"))
	for _, from := range []string{"", "&resourceVersion=0"} {
		watching(t, s, pods+"?watch=1"+from).expect(t, "ADDED a "+a, "ADDED b "+b)
	}
	w := watching(t, s, pods+"?watch=1&resourceVersion="+a)
	w.expect(t, "ADDED b "+b)
	w.expect(t, "MODIFIED a "+relabel(t, s, "a", "x"))
}

func TestW02_StreamingListEndsWithItsBookmark(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	a := fill(t, s, pod("a"))
	b := fill(t, s, pod("b"))
	w := watching(t, s, pods+"?watch=1"+streaming)
	w.expect(t, "ADDED a "+a, "ADDED b "+b, "BOOKMARK end "+b)
	w.expect(t, "ADDED c "+fill(t, s, pod("c")))
	w = watching(t, s, pods+"?watch=1"+streaming+"&resourceVersion="+a)
	w.expect(t, "ADDED a "+a, "ADDED b "+b, "ADDED c "+version(s), "BOOKMARK end "+version(s))
	w = watching(t, s, pods+"?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	w.expect(t, "MODIFIED a "+relabel(t, s, "a", "x"))
}

func TestW05_TheBookmarkMayNeverCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		a := fill(t, s, pod("a"))
		must(s.Inject(apiserver.Fault{Kind: apiserver.DropBookmarks}))
		w := watching(t, s, pods+"?watch=1&timeoutSeconds=300"+streaming)
		w.expect(t, "ADDED a "+a, "end")
	})
}

func TestW06_StreamingListsCanBeDisabled(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{NoStreamingLists: true})
	get(t, s, pods+"?watch=1"+streaming).refused(t, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is forbidden")
}

func TestW07_BookmarksCarryOnlyTheLatestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		a := fill(t, s, pod("a"))
		w := watching(t, s, pods+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion="+a)
		began := time.Now()
		relabelled := fill(t, s, namespace("elsewhere")) // another resource advances the version
		w.expect(t, "BOOKMARK "+relabelled)
		if passed := time.Since(began); passed != time.Minute {
			t.Errorf("the first bookmark came after %v", passed)
		}
		w.expect(t, "BOOKMARK "+relabelled, "BOOKMARK "+relabelled, "end")
		w = watching(t, s, pods+"?watch=1&timeoutSeconds=150&resourceVersion="+a)
		w.expect(t, "end")
	})
}

func TestW08_GoneComesAsAnEventOrAsAStatus(t *testing.T) {
	for _, status := range []bool{false, true} {
		s := apiserver.Start(t, apiserver.Options{GoneAsStatus: status})
		a := fill(t, s, pod("a"))
		b := fill(t, s, pod("b"))
		s.Compact(0)
		path := pods + "?watch=1&resourceVersion=" + a
		if status {
			get(t, s, path).refused(t, http.StatusGone, "Expired", "too old resource version: "+a+" ("+b+")")
		} else {
			watching(t, s, path).expect(t, "ERROR 410 Expired", "end")
		}
		w := watching(t, s, pods+"?watch=1&resourceVersion="+b)
		w.expect(t, "ADDED c "+fill(t, s, pod("c")))
	}
}

func TestW08_TheHistoryIsBounded(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{History: 3})
	versions := []string{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		versions = append(versions, fill(t, s, pod(name)))
	}
	watching(t, s, pods+"?watch=1&resourceVersion="+versions[0]).expect(t, "ERROR 410 Expired", "end")
	watching(t, s, pods+"?watch=1&resourceVersion="+versions[1]).expect(t, "ADDED c "+versions[2], "ADDED d "+versions[3], "ADDED e "+versions[4])
}

func TestW11_TheTimeoutEndsAWatchCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		began := time.Now()
		watching(t, s, pods+"?watch=1&timeoutSeconds=7&resourceVersion=10").expect(t, "end")
		if passed := time.Since(began); passed != 7*time.Second {
			t.Errorf("it ended after %v", passed)
		}
		began = time.Now()
		watching(t, s, pods+"?watch=1&resourceVersion=10").expect(t, "end")
		if passed := time.Since(began); passed < 30*time.Minute || passed > time.Hour {
			t.Errorf("without a timeout it ended after %v", passed)
		}
	})
}

func TestW15_DeletedCarriesTheVersionOfTheDeletion(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	a := fill(t, s, pod("a", "tier", "web"))
	w := watching(t, s, pods+"?watch=1&resourceVersion="+a)
	if err := s.Delete(pod("a")); err != nil {
		t.Fatal(err)
	}
	if version(s) == a {
		t.Fatal("deletion did not advance the version")
	}
	w.expect(t, "DELETED a "+version(s))
}

func TestW16_LeavingTheSelectorIsDeletedEnteringIsAdded(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	start := fill(t, s, pod("a", "tier", "db"))
	w := watching(t, s, pods+"?watch=1&labelSelector=tier%3Dweb&resourceVersion="+start)
	w.expect(t, "ADDED a "+relabel(t, s, "a", "web"))
	changed := pod("a", "tier", "web")
	changed.Annotations = map[string]string{"note": "x"}
	must(s.Update(changed))
	w.expect(t, "MODIFIED a "+version(s))
	left := relabel(t, s, "a", "db")
	if !w.lines.Scan() {
		t.Fatal(w.next())
	}
	// The object is the last state that matched, at the version of the change.
	if line := w.lines.Text(); !strings.Contains(line, `"DELETED"`) || !strings.Contains(line, `"tier":"web"`) || !strings.Contains(line, `"resourceVersion":"`+left+`"`) {
		t.Errorf("got %s", line)
	}
	relabel(t, s, "a", "cache") // no event
	w.expect(t, "ADDED a "+relabel(t, s, "a", "web"))

	byNode := watching(t, s, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion="+version(s))
	moved := pod("a")
	moved.Spec.NodeName = "n1"
	must(s.Update(moved))
	byNode.expect(t, "ADDED a "+version(s))
}

func TestW17_ANewUIDUnderAnOldNameIsDeletedThenAdded(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	w := watching(t, s, pods+"?watch=1&resourceVersion="+fill(t, s, pod("a")))
	if err := s.Delete(pod("a")); err != nil {
		t.Fatal(err)
	}
	gone := version(s)
	w.expect(t, "DELETED a "+gone, "ADDED a "+fill(t, s, pod("a")))
}

func TestW19_ARewindReusesVersions(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	then := fill(t, s, pod("a"))
	w := watching(t, s, pods+"?watch=1&resourceVersion="+then)
	token := func() string {
		fill(t, s, pod("b"))
		return get(t, s, pods+"?limit=1").at("metadata", "continue")
	}()
	if err := s.Delete(pod("a")); err != nil {
		t.Fatal(err)
	}
	if got := s.Rewind(2); version(s) != then || got != s.Version() {
		t.Errorf("rewound to %d, want %s", got, then)
	}
	for got := w.next(); got != "cut"; got = w.next() {
		if got == "end" {
			t.Fatal("the watch ended cleanly")
		}
	}
	if a := get(t, s, pods); strings.Join(a.names(), " ") != "a" {
		t.Errorf("after the rewind there are %v", a.names())
	}
	get(t, s, pods+"?limit=1&continue="+token).refused(t, http.StatusGone, "Expired", "")
}

func TestW23_ARemovedDefinitionDeletesAndEnds(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	start := fill(t, s, lake("blue"))
	w := watching(t, s, "/apis/example.com/v1/lakes?watch=1&resourceVersion="+start)
	s.Undefine("example.com", "lakes")
	w.expect(t, "DELETED blue "+version(s), "end")
	get(t, s, "/apis/example.com/v1/lakes").refused(t, http.StatusNotFound, "", "") // the whole group is removed
}

func TestAWatchAtAFutureVersionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		w := watching(t, s, pods+"?watch=1&timeoutSeconds=60&resourceVersion=15") // the current version is 13
		fill(t, s, pod("a"), pod("b"))
		w.expect(t, "ADDED c "+fill(t, s, pod("c")), "end")
	})
}

func TestDeprecatedWatchPathsAreServed(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	a := fill(t, s, pod("a"))
	b := fill(t, s, pod("b"))
	watching(t, s, "/api/v1/watch/pods").expect(t, "ADDED a "+a, "ADDED b "+b)
	watching(t, s, "/api/v1/watch/namespaces/default/pods").expect(t, "ADDED a "+a, "ADDED b "+b)
	watching(t, s, "/api/v1/watch/namespaces/default/pods/b").expect(t, "ADDED b "+b)
	watching(t, s, "/api/v1/watch/namespaces/default").expect(t, "ADDED default 10")
}

func TestASlowWatchIsCutWhenItFallsBehindTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{History: 10})
		big := pod("big")
		big.Annotations = map[string]string{"fill": strings.Repeat("x", 100_000)}
		w := watching(t, s, pods+"?watch=1&resourceVersion="+fill(t, s, big))
		for i := range 50 { // without a reader, since the connection buffers only a few
			big.Labels = map[string]string{"n": strings.Repeat("y", i+1)}
			must(s.Update(big))
			synctest.Wait()
		}
		n := 0
		for ; ; n++ {
			if got := w.next(); got == "cut" {
				break
			} else if got == "end" {
				t.Fatal("the watch ended cleanly")
			}
		}
		if n == 0 || n >= 50 {
			t.Errorf("%d events came before the cut", n)
		}
	})
}

func TestAQuietWatchSurvivesChangesOfOtherKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{History: 5})
		w := watching(t, s, "/api/v1/nodes?watch=1&allowWatchBookmarks=true&resourceVersion="+version(s))
		fill(t, s, pod("a"))
		for i := range 50 {
			relabel(t, s, "a", strings.Repeat("x", i+1))
		}
		w.expect(t, "BOOKMARK "+version(s)) // after a minute
		for i := range 50 {
			relabel(t, s, "a", strings.Repeat("y", i+1))
		}
		w.expect(t, "ADDED n1 "+fill(t, s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	})
}

func TestW08_L13_W15_OldServerResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{OldServer: true})
		a := fill(t, s, pod("a"))
		w := watching(t, s, pods+"?watch=1&timeoutSeconds=60&resourceVersion="+a)
		if err := s.Delete(pod("a")); err != nil {
			t.Fatal(err)
		}
		w.expect(t, "DELETED a "+a, "end")
		large := get(t, s, pods+"?resourceVersion=1000")
		large.refused(t, http.StatusGatewayTimeout, "Timeout", "Too large resource version")
		if strings.Contains(large.raw, "ResourceVersionTooLarge") {
			t.Errorf("got %s", large.raw)
		}
		s.Compact(0)
		watching(t, s, pods+"?watch=1&resourceVersion="+a).expect(t, "ERROR 410 Gone", "end")
		get(t, s, pods+"?limit=1&resourceVersion="+a).refused(t, http.StatusGone, "Gone", "too old")
	})
}

// As on kube-apiserver 1.36.3, so that a short timeout asks for a bookmark.
func TestW07_ABookmarkComesTwoSecondsBeforeTheTimeout(t *testing.T) {
	for seconds, want := range map[int]time.Duration{1: 0, 2: 0, 3: time.Second, 4: 2 * time.Second, 30: 28 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := apiserver.Start(t, apiserver.Options{})
			a := fill(t, s, pod("a"))
			began := time.Now()
			w := watching(t, s, fmt.Sprintf("%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s", pods, seconds, a))
			if want > 0 {
				w.expect(t, "BOOKMARK "+a)
				if passed := time.Since(began); passed != want {
					t.Errorf("timeoutSeconds=%d: a bookmark after %v, want %v", seconds, passed, want)
				}
			}
			w.expect(t, "end")
		})
	}
}
