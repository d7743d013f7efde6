package stream

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// pager is a server that returns pods in pages. A continue token is the number of the next pod; it
// has expired if expire returns true.
type pager struct {
	pods    int
	expire  func(query url.Values) bool
	empty   bool // every other page is empty
	queries []url.Values
}

func (p *pager) client(t testing.TB, e wire.Encoding) *wire.Client {
	return inMemory(t, func(req *http.Request) (*http.Response, error) {
		q := req.URL.Query()
		p.queries = append(p.queries, q)
		if p.expire != nil && p.expire(q) {
			st := apierrors.NewResourceExpired("The provided continue parameter is too old").ErrStatus
			return wiretest.Response(req, 410, string(wireBytes(e, &st)), "Content-Type", mediaOf(e)), nil
		}
		from, _ := strconv.Atoi(q.Get("continue"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "90000"}}
		to := p.pods
		if limit > 0 {
			to = min(to, from+limit)
		}
		if p.empty && len(p.queries)%2 == 1 {
			to = from
		}
		for i := from; i < to; i++ {
			list.Items = append(list.Items, *pod(i))
		}
		if to < p.pods {
			list.Continue = strconv.Itoa(to)
			if to == from {
				list.Continue = "0" + q.Get("continue") // another token for the same page
			}
			left := int64(p.pods - to)
			list.RemainingItemCount = &left
		}
		return wiretest.Response(req, 200, string(wireBytes(e, list)), "Content-Type", mediaOf(e)), nil
	})
}

// L05: further pages are requested by their token only, without a version.
func TestL05_PagesFollowTheTokenWithoutAVersion(t *testing.T) {
	for _, e := range encodings {
		p := &pager{pods: 25}
		src := sourceOf(t, p.client(t, e), podsAs(e), Options{})
		list, err := src.Collect(t.Context(), object.ListOptions{
			Version: "12", Match: object.NotOlderThan, Limit: 10, Selection: object.Selection{Namespace: "shop", Labels: "a=b"},
		})
		if err != nil || list.Mark != (object.Mark{Scope: "shop", Version: "90000"}) {
			t.Fatalf("%s: %+v, err %v", e, list.Mark, err)
		}
		checkPods(t, list.Items, podList(25).Items)
		if len(p.queries) != 3 || p.queries[0].Get("resourceVersion") != "12" {
			t.Fatalf("%s: queries %v", e, p.queries)
		}
		for i, q := range p.queries[1:] {
			want := url.Values{"limit": {"10"}, "continue": {strconv.Itoa(10 * (i + 1))}, "labelSelector": {"a=b"}}
			if q.Encode() != want.Encode() {
				t.Errorf("%s: page %d was asked for with %v", e, i+2, q)
			}
		}
	}
}

// L06: an expired token discards the pages. After two restarts in pages the list is requested
// without a limit.
func TestL06_ExpiredContinueRestarts(t *testing.T) {
	p := &pager{pods: 25, expire: func(q url.Values) bool { return q.Get("continue") == "20" }}
	src := sourceOf(t, p.client(t, wire.JSON), podsAs(wire.JSON), Options{})
	var names []string
	restarts := 0
	page, err := src.ListAll(t.Context(), object.ListOptions{Version: "12", Match: object.NotOlderThan, Limit: 10}, nil,
		func(item object.Item[*corev1.Pod]) error { names = append(names, item.Key.Name); return nil },
		func(cause error) {
			if !apierrors.IsResourceExpired(cause) {
				t.Errorf("restarted because of %v", cause)
			}
			restarts++
			names = nil
		})
	if err != nil || page != (object.Page{Version: "90000"}) || len(names) != 25 || restarts != 3 {
		t.Fatalf("%d items, %d restarts, page %+v, err %v", len(names), restarts, page, err)
	}
	last := p.queries[len(p.queries)-1]
	if last.Has("limit") || last.Has("continue") || last.Get("resourceVersion") != "12" || len(p.queries) != 10 {
		t.Errorf("%d requests, the last with %v", len(p.queries), last)
	}

	_, err = src.ListAll(t.Context(), object.ListOptions{Limit: 10}, nil, func(object.Item[*corev1.Pod]) error { return nil }, nil)
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("without restart: %v", err)
	}
}

func TestL06_AnExpiredFirstPageDoesNotRestart(t *testing.T) {
	p := &pager{pods: 5, expire: func(url.Values) bool { return true }}
	src := sourceOf(t, p.client(t, wire.JSON), podsAs(wire.JSON), Options{})
	_, err := src.ListAll(t.Context(), object.ListOptions{}, nil, nil, func(error) { t.Error("restarted") })
	if !apierrors.IsResourceExpired(err) || len(p.queries) != 1 {
		t.Errorf("%v after %d requests", err, len(p.queries))
	}
}

// L07: an empty page with a token is not the last one.
func TestL07_AnEmptyPageMayHaveANextOne(t *testing.T) {
	p := &pager{pods: 25, empty: true}
	src := sourceOf(t, p.client(t, wire.JSON), podsAs(wire.JSON), Options{})
	list, err := src.Collect(t.Context(), object.ListOptions{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	checkPods(t, list.Items, podList(25).Items)
}

func TestARepeatedContinueTokenIsAnError(t *testing.T) {
	c := inMemory(t, func(req *http.Request) (*http.Response, error) {
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "again"}}
		return wiretest.Response(req, 200, string(wireBytes(wire.JSON, list)), "Content-Type", wiretest.JSON), nil
	})
	_, err := sourceOf(t, c, podsAs(wire.JSON), Options{}).Collect(t.Context(), object.ListOptions{})
	if !errors.Is(err, object.ErrCorrupt) {
		t.Error(err)
	}
}

func TestListAllRequestsPagesOf500(t *testing.T) {
	p := &pager{pods: 3}
	src := sourceOf(t, p.client(t, wire.JSON), podsAs(wire.JSON), Options{})
	if _, err := src.Collect(t.Context(), object.ListOptions{}); err != nil || p.queries[0].Get("limit") != "500" {
		t.Errorf("%v, %v", p.queries, err)
	}
	if _, err := src.ListAll(t.Context(), object.ListOptions{Continue: "c"}, nil, nil, nil); err == nil {
		t.Error("a whole list began in the middle")
	}
}
