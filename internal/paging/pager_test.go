package paging_test

import (
	"errors"
	"fmt"
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

// However long it takes until tokens repeat, and however many of them do.
func TestL07_TokensThatRepeatAreCorrupt(t *testing.T) {
	for first := range 20 {
		for repeating := 1; repeating < 20; repeating++ {
			var p paging.Pager
			for i := 0; ; i++ {
				token := i
				if i > first {
					token = first + (i-first)%repeating
				}
				_, err := p.Read(object.Page{Version: "9", Continue: fmt.Sprint("t", token)})
				if errors.Is(err, object.ErrCorrupt) {
					if i < first+repeating {
						t.Errorf("%d tokens and %d that repeat: refused after %d pages", first, repeating, i)
					}
					break
				}
				if i > 4*(first+repeating) {
					t.Errorf("%d tokens and %d that repeat: not refused after %d pages", first, repeating, i)
					break
				}
			}
		}
	}
}
