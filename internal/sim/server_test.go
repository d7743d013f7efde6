package sim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/object"
)

// stocked is a server with the objects a, b, c, of which b was changed and c deleted and
// made again. Versions: a 12, b 15, c 16, b' 18, -c 20, c" 23.
func stocked(q sim.Quirks) *sim.Server {
	s := sim.NewServer(q, nil)
	s.Create(key("a"), tier("a"))
	s.Create(key("b"), tier("b"))
	s.Create(key("c"), tier("c"))
	s.Update(key("b"), touch)
	s.Delete(key("c"))
	s.Create(key("c"), tier("c"))
	return s
}

func TestL01_VersionAndMatchSayWhichState(t *testing.T) {
	s := stocked(sim.Quirks{Lag: 5})
	for _, c := range []struct {
		opts  object.ListOptions
		names string
		at    object.Version
	}{
		{object.ListOptions{}, "a b c", "23"},
		{object.ListOptions{Version: "0"}, "a", "12"}, // as far behind as it may be
		{object.ListOptions{Version: "20"}, "a b", "20"},
		{object.ListOptions{Version: "20", Match: object.NotOlderThan}, "a b", "20"},
		{object.ListOptions{Version: "15", Match: object.Exact}, "a b", "15"},
		{object.ListOptions{Version: "15", Limit: 10}, "a b", "15"}, // a limit alone means exactly
		{object.ListOptions{Version: "15", Match: object.NotOlderThan, Limit: 10}, "a b c", "23"},
		{object.ListOptions{Selection: object.Selection{Labels: "tier in (a,c)"}}, "a c", "23"},
		{object.ListOptions{Selection: object.Selection{Fields: "metadata.name=b"}}, "b", "23"},
		{object.ListOptions{Selection: object.Selection{Namespace: "two"}}, "", "23"},
	} {
		names, page, err := listed(t, s, c.opts)
		if err != nil || strings.Join(names, " ") != c.names || page.Version != c.at {
			t.Errorf("%+v: %q at %s, %v; want %q at %s", c.opts, names, page.Version, err, c.names, c.at)
		}
	}
	for _, c := range []struct {
		opts object.ListOptions
		want string
	}{
		{object.ListOptions{Match: object.Exact}, "forbidden"},
		{object.ListOptions{Version: "0", Match: object.Exact}, "forbidden"},
		{object.ListOptions{Version: "x"}, "invalid resource version"},
		{object.ListOptions{Version: "12", Continue: "12|0|one/a"}, "continue"},
		{object.ListOptions{Selection: object.Selection{Labels: "!!"}}, "parse"},
	} {
		_, _, err := listed(t, s, c.opts)
		expectError(t, err, c.want)
	}
}

func TestL04_LimitMayBeIgnoredForZero(t *testing.T) {
	opts := object.ListOptions{Version: "0", Limit: 2}
	names, page, _ := listed(t, stocked(sim.Quirks{}), opts)
	expect(t, names, "a", "b")
	if page.Continue == "" || page.Remaining != 1 {
		t.Errorf("page %+v, want one more item", page)
	}
	names, page, _ = listed(t, stocked(sim.Quirks{LimitIgnored: true}), opts)
	expect(t, names, "a", "b", "c")
	if page.Continue != "" {
		t.Errorf("page %+v, want the last", page)
	}
}

func TestL06_ContinueServesOneVersionUntilItExpires(t *testing.T) {
	for _, inconsistent := range []bool{false, true} {
		s := stocked(sim.Quirks{InconsistentContinue: inconsistent})
		_, first, _ := listed(t, s, object.ListOptions{Limit: 2})
		s.Delete(key("c"))
		names, second, err := listed(t, s, object.ListOptions{Limit: 2, Continue: first.Continue})
		expect(t, names, "c")
		if err != nil || second.Version != first.Version {
			t.Errorf("page %+v, %v; want version %s", second, err, first.Version)
		}
		s.Compact(0)
		_, _, err = listed(t, s, object.ListOptions{Limit: 2, Continue: first.Continue})
		status, ok := err.(apierrors.APIStatus)
		if !ok || !apierrors.IsResourceExpired(err) {
			t.Fatalf("got %v, want 410", err)
		}
		rest := status.Status().ListMeta.Continue
		if (rest != "") != inconsistent {
			t.Errorf("token %q, want one: %v", rest, inconsistent)
		}
		if rest != "" {
			names, page, err := listed(t, s, object.ListOptions{Limit: 2, Continue: rest})
			if err != nil || len(names) > 0 || page.Version == first.Version {
				t.Errorf("%q, %+v, %v; want the remainder of now", names, page, err)
			}
		}
	}
}

func TestL07_APageMayBeEmptyAndGoOn(t *testing.T) {
	s := stocked(sim.Quirks{EmptyPages: true})
	var all []string
	opts := object.ListOptions{Limit: 2}
	for pages := 1; ; pages++ {
		names, page, err := listed(t, s, opts)
		if err != nil {
			t.Fatal(err)
		}
		if pages == 1 && len(names) > 0 {
			t.Errorf("the first page has %q", names)
		}
		all = append(all, names...)
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
	}
	expect(t, all, "a", "b", "c")
}

func TestL13_AVersionThatIsNotThereYetIsTooLarge(t *testing.T) {
	for _, textOnly := range []bool{false, true} {
		s := stocked(sim.Quirks{TextOnly: textOnly})
		_, _, err := listed(t, s, object.ListOptions{Version: "99"})
		expectError(t, err, "Too large resource version")
		if !apierrors.IsTimeout(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) == textOnly {
			t.Errorf("text only %v: %#v", textOnly, err)
		}
	}
}

func TestW01_AWatchBeginsWithTheStateOrExactlyAtAVersion(t *testing.T) {
	s := stocked(sim.Quirks{})
	got, _ := watched(t, s, object.WatchOptions{Version: "16"}, 3)
	expect(t, got, "Updated b 18", "Deleted c 20", "Added c 23")
	got, _ = watched(t, s, object.WatchOptions{}, 3)
	expect(t, got, "Added a 12", "Added b 18", "Added c 23")
}

func TestW02_AStreamingListEndsAtItsBookmark(t *testing.T) {
	s := stocked(sim.Quirks{})
	opts := object.WatchOptions{InitialEvents: true, Bookmarks: true, Match: object.NotOlderThan}
	got, _ := watched(t, s, opts, 4)
	expect(t, got, "Added a 12", "Added b 18", "Added c 23", "END 23")
	opts.Bookmarks = false
	_, err := watched(t, s, opts, 1)
	expectError(t, err, "allowWatchBookmarks")
	opts.Bookmarks = true
	for q, want := range map[sim.Streaming]string{sim.Invalid: "invalid", sim.BadRequest: "not known"} {
		_, err := watched(t, stocked(sim.Quirks{Streaming: q}), opts, 1)
		expectError(t, err, want)
	}
}

func TestW05_AnEndlessStreamingListHasNoBookmarkOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stocked(sim.Quirks{Streaming: sim.Endless})
		opts := object.WatchOptions{InitialEvents: true, Bookmarks: true, Match: object.NotOlderThan}
		got, _ := watched(t, s, opts, 4)
		expect(t, got, "Added a 12", "Added b 18", "Added c 23", "BOOKMARK 23")
	})
}

func TestW07_BookmarksComeEveryMinuteAndW11_TheTimeoutEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stocked(sim.Quirks{})
		began := time.Now()
		got, err := watched(t, s, object.WatchOptions{Version: "23", Bookmarks: true, Timeout: 150 * time.Second}, 3)
		expect(t, got, "BOOKMARK 23", "BOOKMARK 23")
		if !isEnd(err) || time.Since(began) != 150*time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(began))
		}
		if s.Streams() != 0 {
			t.Errorf("%d streams left open", s.Streams())
		}
	})
}

func TestW08_GoneComesAsStatusOrInTheStream(t *testing.T) {
	s := stocked(sim.Quirks{})
	s.Compact(1)
	_, err := watched(t, s, object.WatchOptions{Version: "12"}, 1)
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v, want 410 Expired", err)
	}
	s = stocked(sim.Quirks{GoneInStream: true, GoneReason: true})
	s.Compact(1)
	got, err := watched(t, s, object.WatchOptions{Version: "12"}, 2)
	expect(t, got, "ERROR too old resource version: 12 (22)")
	if !isEnd(err) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestW15_ADeletionCarriesItsVersionOrTheObjectsOwn(t *testing.T) {
	got, _ := watched(t, stocked(sim.Quirks{OwnVersionDeleted: true}), object.WatchOptions{Version: "18"}, 1)
	expect(t, got[:1], "Deleted c 16")
}

func TestW14_WhatIsDeletedTogetherHasOneVersion(t *testing.T) {
	s := stocked(sim.Quirks{})
	if n := s.DeleteTogether(key("a"), key("none"), key("c"), key("a")); n != 2 || s.Version() != 26 {
		t.Errorf("%d deleted at %d", n, s.Version())
	}
	s.Update(key("b"), touch)
	got, _ := watched(t, s, object.WatchOptions{Version: "23"}, 3)
	expect(t, got, "Deleted a 26", "Deleted c 26", "Updated b 27")
	got, _ = watched(t, s, object.WatchOptions{Version: "26"}, 1)
	expect(t, got, "Updated b 27")
	if n := len(s.DeletedTogether(26)); n != 2 {
		t.Errorf("%d known to be deleted together", n)
	}
	if n := len(s.DeletedTogether(20)); n != 0 {
		t.Errorf("%d deleted together where one was deleted", n)
	}
	if n := s.DeleteTogether(key("none")); n != 0 || s.Version() != 27 {
		t.Errorf("%d deleted at %d", n, s.Version())
	}
}

func TestW16_EnteringAndLeavingASelectorIsAddedAndDeleted(t *testing.T) {
	s := stocked(sim.Quirks{})
	opts := object.WatchOptions{Selection: object.Selection{Labels: "tier=x"}, Version: "23"}
	s.Update(key("a"), relabel("x"))
	s.Update(key("a"), touch)
	s.Update(key("a"), relabel("y"))
	s.Update(key("a"), touch)
	got, _ := watched(t, s, opts, 3)
	expect(t, got, "Added a 24", "Updated a 26", "Deleted a 29")
}

func TestW19_ARestoreGivesOldVersionsToOtherStates(t *testing.T) {
	s := stocked(sim.Quirks{})
	w, err := s.Watch(t.Context(), object.WatchOptions{Version: "23"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, old, _ := listed(t, s, object.ListOptions{Limit: 1})
	if to := s.Rewind(3); to != 16 {
		t.Errorf("restored to %d, want 16", to)
	}
	if _, _, err := listed(t, s, object.ListOptions{Continue: old.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the token of the old history: %v, want 410", err)
	}
	if _, err := w.Next(); err == nil {
		t.Error("the watch outlived the restore")
	}
	names, page, _ := listed(t, s, object.ListOptions{})
	expect(t, names, "a", "b", "c")
	if page.Version != "16" {
		t.Errorf("restored to %s, want 16", page.Version)
	}
	s.Update(key("b"), touch)
	s.Rewind(1)
	if !s.Existed(12, 0, 1) || s.Existed(17, 0, 1) || !s.Existed(17, 1, 1) || s.Existed(17, 1, 2) {
		t.Error("wrong about what is part of which history")
	}
}

func TestW23_ARemovedResourceIsNotFound(t *testing.T) {
	s := stocked(sim.Quirks{})
	w, err := s.Watch(t.Context(), object.WatchOptions{Version: "23"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Remove()
	if events, err := w.Next(); err != nil || len(events) != 3 {
		t.Errorf("%d events, %v; want the deletions", len(events), err)
	}
	if _, err := w.Next(); !isEnd(err) {
		t.Errorf("got %v, want the end", err)
	}
	if _, _, err := listed(t, s, object.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want 404", err)
	}
	s.Restore()
	if names, _, err := listed(t, s, object.ListOptions{}); err != nil || len(names) > 0 {
		t.Errorf("%q, %v; want an empty list", names, err)
	}
}
