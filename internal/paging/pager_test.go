package paging_test

import (
	"errors"
	"testing"

	"github.com/tarnproject/tarn/internal/paging"
	"github.com/tarnproject/tarn/object"
)

var firstPage = object.ListOptions{Version: "7", Match: object.NotOlderThan, Limit: 10}

// read records a page and fails the test if it is not accepted.
func read(t *testing.T, p *paging.Pager, page object.Page) (last bool) {
	t.Helper()
	last, err := p.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func TestL05_APagerFollowsTheTokenWithoutAVersion(t *testing.T) {
	var p paging.Pager
	if got := p.Request(firstPage); got != firstPage {
		t.Errorf("first page: %+v", got)
	}
	if read(t, &p, object.Page{Version: "9", Continue: "a"}) {
		t.Error("a page with a token was the last")
	}
	if got, want := p.Request(firstPage), (object.ListOptions{Continue: "a", Limit: 10}); got != want {
		t.Errorf("second page: %+v, want %+v", got, want)
	}
	if !read(t, &p, object.Page{Version: "12"}) || p.Version != "9" || p.Pages != 2 {
		t.Errorf("at the end: %+v", p)
	}
}

func TestL06_APagerRestartsTwiceThenDropsTheLimit(t *testing.T) {
	var p paging.Pager
	for range 3 {
		if got := p.Request(firstPage); got != firstPage || p.Unlimited() {
			t.Errorf("after %d restarts: %+v", p.Restarts, got)
		}
		read(t, &p, object.Page{Version: "9", Continue: "a"})
		p.Restart()
	}
	want := firstPage
	want.Limit = 0
	if got := p.Request(firstPage); got != want || !p.Unlimited() || p.Pages != 0 || p.Version != "" {
		t.Errorf("after %d restarts: %+v, %+v", p.Restarts, got, p)
	}
}

func TestL07_APageThatContinuesWithItsOwnTokenIsCorrupt(t *testing.T) {
	var p paging.Pager
	read(t, &p, object.Page{Version: "9", Continue: "a"})
	if _, err := p.Read(object.Page{Version: "9", Continue: "a"}); !errors.Is(err, object.ErrCorrupt) {
		t.Error(err)
	}
}
