package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestL01_FirstListAsksForAnyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newServer("a/x", "a/y"), plain(options{}))
		r.requests(`LIST "0" limit=500`, `WATCH "12"`)
		r.mirrors()
		s := r.live()
		if !s.Synced || s.Mark != (object.Mark{Version: "12"}) || s.Counts.Lists != 1 || s.Counts.Items != 2 || s.Counts.Pages != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestL02_RelistAsksForNothingOlderThanSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		srv.Set("a/y", value("v")) // 12
		simtest.Advance(0)
		r.requests(`LIST "0" limit=500`, `WATCH "11"`)
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		r.requests(`LIST "12" NotOlderThan`, `WATCH "12"`)
		r.mirrors()
		r.live()
	})
}

func TestL02_PagedRelistNeedsTheMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		r := start(t, srv, plain(options{PageSize: 2}))
		srv.Set("a/x", value("v"))
		simtest.Advance(0)
		r.srv.Requests()
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		r.requests(`LIST "14" NotOlderThan limit=2`, `LIST continue=c2 limit=2`, `WATCH "14"`)
		r.mirrors()
	})
}

func TestL03_ExpiredWatchListsAtTheLastVersionFirst(t *testing.T) {
	for _, refusal := range []error{
		apierrors.NewResourceExpired("too old"),
		simtest.TooLarge(12, 11),
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer("a/x")
			srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
				return object.Page{}, refusal, opts.Version.Known()
			}
			r := start(t, srv, plain(options{}))
			srv.Set("a/y", value("v"))
			simtest.Advance(0)
			srv.Requests()
			srv.Cut(apierrors.NewResourceExpired("gone"))
			simtest.Advance(0)
			r.requests(`LIST "12" NotOlderThan`, `LIST "" limit=500`, `WATCH "12"`)
			r.mirrors()
			// The fall-back is for once.
			srv.Set("a/y", value("w"))
			simtest.Advance(0)
			srv.Do(func() { srv.OnList = nil })
			srv.Cut(apierrors.NewResourceExpired("gone"))
			simtest.Advance(0)
			r.requests(`LIST "13" NotOlderThan`, `WATCH "13"`)
		})
	}
}

func TestL04_FirstListDecidesOnPages(t *testing.T) {
	for _, tc := range []struct {
		ignore object.Version
		paged  bool
		relist []string
	}{
		{"0", false, []string{`LIST "14" NotOlderThan`, `WATCH "14"`}},
		{"none", true, []string{`LIST "14" NotOlderThan limit=2`, `LIST continue=c2 limit=2`, `WATCH "14"`}},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer("a/x", "a/y", "a/z")
			srv.Unlimited = tc.ignore
			r := start(t, srv, plain(options{PageSize: 2}))
			r.mirrors()
			if s := r.live(); s.Paged != tc.paged {
				t.Errorf("paged: %v", s.Paged)
			}
			srv.Set("a/x", value("v"))
			simtest.Advance(0)
			srv.Requests()
			srv.Cut(apierrors.NewResourceExpired("gone"))
			simtest.Advance(0)
			r.requests(tc.relist...)
		})
	}
}

func TestL04_ARecentListInPagesDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		r := start(t, srv, plain(options{PageSize: 2}))
		srv.Set("a/x", value("v"))
		simtest.Advance(0)
		srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			return object.Page{}, apierrors.NewResourceExpired("too old"), opts.Version.Known()
		}
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(0)
		if r.live().Paged {
			t.Error(`pages of a list of "" made later lists paged`)
		}
	})
}

func TestL05_ContinueHasNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/v", "a/w", "a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		r := start(t, srv, plain(options{PageSize: 2}))
		r.requests(`LIST "0" limit=2`, `LIST continue=c2 limit=2`, `LIST continue=c4 limit=2`, `WATCH "15"`)
		r.mirrors()
		if s := r.live(); s.Counts.Pages != 3 || s.Counts.Lists != 1 {
			t.Errorf("%+v", s.Counts)
		}
	})
}

func TestL05_TheFirstPagesVersionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			if opts.Continue != "" {
				srv.Set("a/x", value("changed since the first page"))
			}
			return object.Page{}, nil, false // whose version is that of the change
		}
		r := start(t, srv, plain(options{PageSize: 2}))
		r.requests(`LIST "0" limit=2`, `LIST continue=c2 limit=2`, `WATCH "13"`)
		r.mirrors() // the watch delivers the change
	})
}

func TestL06_ExpiredContinueRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/w", "a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		expire := 1
		srv.OnList = func(_ int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			if opts.Continue == "c2" && expire > 0 {
				expire--
				srv.Delete("a/w") // so that the first page differs
				return object.Page{}, apierrors.NewResourceExpired("the continue token is too old"), true
			}
			return object.Page{}, nil, false
		}
		r := start(t, srv, plain(options{PageSize: 2}))
		r.requests(`LIST "0" limit=2`, `LIST continue=c2 limit=2`,
			`LIST "0" limit=2`, `LIST continue=c2 limit=2`, `WATCH "15"`)
		r.mirrors()
		if s := r.live(); s.Unpaged != "" {
			t.Error(s.Unpaged)
		}
		r.ended(reflector.Expired, 1)
	})
}

func TestL06_AfterTwoRestartsOneUnlimitedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			return object.Page{}, apierrors.NewResourceExpired("the continue token is too old"), opts.Continue != ""
		}
		r := start(t, srv, plain(options{PageSize: 2}))
		r.requests(
			`LIST "0" limit=2`, `LIST continue=c2 limit=2`,
			`LIST "0" limit=2`, `LIST continue=c2 limit=2`,
			`LIST "0" limit=2`, `LIST continue=c2 limit=2`,
			`LIST "0"`, `WATCH "13"`)
		r.mirrors()
		if s := r.live(); !strings.Contains(s.Unpaged, "expired 3 times") {
			t.Errorf("the reason is not visible: %q", s.Unpaged)
		}
	})
}

func TestL07_EmptyPageIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		srv.OnList = func(_ int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			if opts.Continue == "" {
				return object.Page{Version: "11", Continue: "c0"}, nil, true
			}
			return object.Page{}, nil, false
		}
		r := start(t, srv, plain(options{PageSize: 2}))
		r.requests(`LIST "0" limit=2`, `LIST continue=c0 limit=2`, `WATCH "11"`)
		r.mirrors()
	})
}

func TestL07_PageThatLeadsToItselfIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		srv.OnList = func(n int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			return object.Page{Version: "11", Continue: "c0"}, nil, n <= 2
		}
		r := start(t, srv, plain(options{}))
		if s := r.in(reflector.BackingOff); !errors.Is(s.Cause, object.ErrCorrupt) {
			t.Errorf("cause: %v", s.Cause)
		}
		simtest.Advance(time.Second)
		r.mirrors()
		r.live()
	})
}

func TestL08_VersionCountsWhenThePageHasBeenRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		var r *fixture
		srv.OnList = func(_ int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			sink(simtest.ItemOf(srv.Get("a/x")))
			if v := r.Status().Mark.Version; v != "" {
				t.Errorf("version %q before the list was read", v)
			}
			return object.Page{Version: "11"}, nil, true
		}
		r = prepare(t, srv, plain(options{}))
		ctx := t.Context()
		for r.Status().State != reflector.Watching {
			if err := r.Step(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if v := r.Status().Mark.Version; v != "11" {
			t.Errorf("version %q", v)
		}
	})
}

func TestL10_CutListChangesNothing(t *testing.T) {
	for name, cut := range map[string]error{
		"connection lost": io.ErrUnexpectedEOF,
		"truncated":       fmt.Errorf("body ends early: %w", object.ErrCorrupt),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x", "a/y", "a/z")
				r := start(t, srv, plain(options{}))
				r.changes.Take()
				srv.OnList = func(n int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
					if n > 2 {
						return object.Page{}, nil, false
					}
					sink(simtest.ItemOf(srv.Get("a/x"))) // and nothing of y and z
					return object.Page{Version: "99"}, cut, true
				}
				before := r.state()
				srv.Cut(apierrors.NewResourceExpired("gone"))
				simtest.Advance(0)
				s := r.in(reflector.BackingOff)
				if !errors.Is(s.Cause, cut) || s.Mark.Version != "13" {
					t.Errorf("%v at %v", s.Cause, s.Mark)
				}
				if got := r.state(); got != before {
					t.Errorf("store: %s", got)
				}
				simtest.Advance(time.Second)
				r.changesAre()
				r.mirrors()
				r.live()
			})
		})
	}
}

func TestL10_LostPageIsRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		lost := false
		srv.OnList = func(_ int, opts object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			if opts.Continue == "" || lost {
				return object.Page{}, nil, false
			}
			lost = true
			sink(item{Key: object.RawKey("a/z"), UID: "u", Version: "13", Err: errors.New("cut in half"), Raw: []byte("{")})
			return object.Page{}, io.ErrUnexpectedEOF, true
		}
		r := start(t, srv, plain(options{PageSize: 2}))
		r.in(reflector.BackingOff)
		simtest.Advance(time.Second)
		r.requests(`LIST "0" limit=2`, `LIST continue=c2 limit=2`, `LIST continue=c2 limit=2`, `WATCH "13"`)
		r.mirrors()
		if s := r.live(); s.Counts.Items != 3 || s.Quarantined != 0 {
			t.Errorf("%d items, %d in quarantine", s.Counts.Items, s.Quarantined)
		}
	})
}

func TestL12_WrongKindStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		wrong := &object.WrongKindError{Want: "v1, Kind=Thing", Got: "meta.k8s.io/v1, Kind=Table"}
		srv.OnList = func(n int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			switch n {
			case 1: // the list is of another kind
				return object.Page{}, wrong, true
			case 2: // an item is
				if err := sink(item{Key: object.RawKey("a/t"), Err: wrong}); err != nil {
					return object.Page{}, err, true
				}
				return object.Page{Version: "11"}, nil, true
			}
			return object.Page{}, nil, false
		}
		r := start(t, srv, plain(options{}))
		for range 2 {
			s := r.in(reflector.BackingOff)
			if !errors.Is(s.Cause, object.ErrWrongKind) || !strings.Contains(s.Cause.Error(), "Kind=Table") {
				t.Errorf("cause: %v", s.Cause)
			}
			if r.store.Len() != 0 || s.Synced {
				t.Error("something was stored")
			}
			simtest.Advance(1700 * time.Millisecond)
		}
		r.mirrors()
		r.live()
		r.ended(reflector.WrongKind, 2)
	})
}

func TestL13_TooLargeVersionIsReset(t *testing.T) {
	old := func(message string, causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
			Message: message, Details: &metav1.StatusDetails{Causes: causes, RetryAfterSeconds: 1},
		}}
	}
	for name, refusal := range map[string]error{
		"cause":         simtest.TooLarge(20, 10),
		"cause's text":  old("Timeout: x", metav1.StatusCause{Message: "Too large resource version"}),
		"message":       old("Timeout: Too large resource version: 20, current: 10"),
		"wrapped cause": fmt.Errorf("list: %w", simtest.TooLarge(20, 10)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer("a/x")
				r := start(t, srv, plain(options{}))
				srv.Set("a/x", value("v"))
				simtest.Advance(0)
				srv.Requests()
				srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
					return object.Page{}, refusal, opts.Version.Known()
				}
				srv.Cut(apierrors.NewResourceExpired("gone"))
				simtest.Advance(0)
				r.requests(`LIST "12" NotOlderThan`, `LIST "" limit=500`, `WATCH "12"`)
				r.live()
				r.ended(reflector.TooLarge, 1)
			})
		})
	}
}

func TestL13_PlainTimeoutDoesNotReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x")
		r := start(t, srv, plain(options{}))
		srv.Set("a/x", value("v"))
		simtest.Advance(0)
		srv.Requests()
		once := true
		srv.OnList = func(int, object.ListOptions, func(item) error) (object.Page, error, bool) {
			defer func() { once = false }()
			return object.Page{}, apierrors.NewTimeoutError("etcd is slow", 0), once
		}
		srv.Cut(apierrors.NewResourceExpired("gone"))
		simtest.Advance(time.Second)
		r.requests(`LIST "12" NotOlderThan`, `LIST "12" NotOlderThan`, `WATCH "12"`)
		r.ended(reflector.Unavailable, 1)
	})
}

func TestL14_IncomparableVersionsAreAcceptedInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		srv.OnList = func(_ int, _ object.ListOptions, sink func(item) error) (object.Page, error, bool) {
			sink(simtest.ItemOf(newThing("a/x", "u", "m", "one")))
			return object.Page{Version: "m"}, nil, true
		}
		var last *stream
		srv.OnWatch = func(int, object.WatchOptions) (object.Stream[*thing], error, bool) {
			last = newStream()
			return last, nil, true
		}
		r := start(t, srv, plain(options{}))
		last.Send(event{Kind: object.Updated, Item: simtest.ItemOf(newThing("a/x", "u", "b", "two"))})
		simtest.Advance(0)
		if got := r.state(); got != "a/x=two@b" {
			t.Error(got)
		}
		if s := r.live(); s.Mark.Version != "b" || s.Counts.Stale != 0 || s.Mark.Epoch != 0 {
			t.Errorf("%+v", s)
		}
		simtest.Advance(2 * time.Second)
		last.Fail(io.EOF)
		simtest.Advance(0)
		r.requests(`LIST "0" limit=500`, `WATCH "m"`, `WATCH "b"`)
		// A list of another version is no rewind: the two do not compare.
		last.Fail(apierrors.NewResourceExpired("gone"))
		simtest.Advance(time.Second)
		if s := r.live(); s.Counts.Rewinds != 0 {
			t.Error("a rewind was guessed")
		}
	})
}

func TestL15_RelistDecodesOnlyWhatIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/x", "a/y", "a/z")
		r := start(t, srv, plain(options{}))
		before, _ := r.store.Get(object.RawKey("a/y"))
		r.changes.Take()
		if srv.Counts().Decoded != 3 {
			t.Fatalf("decoded %d", srv.Counts().Decoded)
		}
		srv.Set("a/x", value("v"))
		simtest.Advance(0)
		srv.Cut(io.ErrUnexpectedEOF) // the next change is missed
		simtest.Advance(0)
		srv.Set("a/z", value("v"))
		srv.Compact()
		r.changes.Take()
		simtest.Advance(time.Second)
		r.changesAre("Updated a/z@15")
		if srv.Counts().Decoded != 4 {
			t.Errorf("%d items were decoded again", srv.Counts().Decoded-3)
		}
		if after, _ := r.store.Get(object.RawKey("a/y")); after != before {
			t.Error("the object held was replaced")
		}
		r.mirrors()
	})
}

func TestL16_RelistIsOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer("a/w", "a/x", "a/y", "a/z")
		srv.Unlimited = "none"
		r := start(t, srv, plain(options{PageSize: 2}))
		srv.Cut(io.ErrUnexpectedEOF)
		simtest.Advance(0)
		srv.Delete("a/w")
		srv.Set("b/w", value("new"))
		before := r.state()
		srv.OnList = func(_ int, opts object.ListOptions, _ func(item) error) (object.Page, error, bool) {
			if opts.Continue != "" && r.state() != before {
				t.Errorf("half a list is visible: %s", r.state())
			}
			return object.Page{}, nil, false
		}
		srv.Compact()
		r.changes.Take()
		simtest.Advance(time.Second)
		r.mirrors()
		r.changesAre("Added b/w@16", "Deleted a/w@11 unknown")
	})
}
