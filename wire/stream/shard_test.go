package stream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// shardOf returns the shard of the pods whose UID or namespace a function chooses among the first n.
func shardOf(by object.ShardBy, n int, in func(*corev1.Pod) bool) object.Shard {
	var ranges []object.HashRange
	for i := range n {
		if p := pod(i); in(p) {
			hash := object.Hash(p.UID)
			if by == object.ByNamespace {
				hash = object.Hash(p.Namespace)
			}
			ranges = append(ranges, object.HashRange{First: hash, Last: hash})
		}
	}
	return object.NewShard(by, ranges...)
}

// shardsOf returns a shard by each field.
func shardsOf(n int) []object.Shard {
	return []object.Shard{
		shardOf(object.ByUID, n, func(p *corev1.Pod) bool { return p.Name[len(p.Name)-1] == '3' }),
		shardOf(object.ByNamespace, n, func(p *corev1.Pod) bool { return p.Namespace == "shop-1" }),
		object.NewShard(object.ByUID),
	}
}

// counting returns an intake that counts the decoded objects.
func counting(decoded *atomic.Int64) *object.Intake[*corev1.Pod] {
	return &object.Intake[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
		decoded.Add(1)
		return p, nil
	}}
}

// sent returns a client whose requests get a body, and what was last asked for.
func sent(t testing.TB, e wire.Encoding, body []byte, query *url.Values) *wire.Client {
	t.Helper()
	return inMemory(t, func(req *http.Request) (*http.Response, error) {
		*query = req.URL.Query()
		resp := wiretest.Response(req, 200, "", "Content-Type", mediaOf(e))
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
		return resp, nil
	})
}

func TestP05_AListOfAShardDecodesNothingElse(t *testing.T) {
	const n = 150
	for _, e := range encodings {
		for _, shard := range shardsOf(n) {
			for _, parallel := range []int{1, 4} {
				var query url.Values
				src := sourceOf(t, sent(t, e, wireBytes(e, podList(n)), &query), podsAs(e), Options{parallel: parallel})
				var got []string
				var decoded atomic.Int64
				outside := 0
				page, err := src.List(t.Context(), object.ListOptions{Selection: object.Selection{Shard: shard}}, counting(&decoded), func(item object.Item[*corev1.Pod]) error {
					if item.Outside {
						outside++
						return nil
					}
					got = append(got, item.Object.Name)
					return item.Err
				})
				var want []string
				for i := range n {
					if p := pod(i); shard.Contains(p.UID, p.Namespace) {
						want = append(want, p.Name)
					}
				}
				if err != nil || !slices.Equal(got, want) || outside != n-len(want) || int(decoded.Load()) != len(want) {
					t.Errorf("%s %s: got %v (%v), %d outside, %d decoded; want %v", e, shard, got, err, outside, decoded.Load(), want)
				}
				if page.Sharded || page.Version != "90000" {
					t.Errorf("%s %s: the page is %+v", e, shard, page)
				}
				if query.Get("shardSelector") != shard.Selector() {
					t.Errorf("%s: the request has the selector %q", e, query.Get("shardSelector"))
				}
			}
		}
	}
}

func TestP05_AWatchOfAShardDecodesNothingElse(t *testing.T) {
	const n = 150
	for _, e := range encodings {
		for _, shard := range shardsOf(n) {
			var query url.Values
			body := append(podEvents(e, n), encodeEvent(e, "BOOKMARK", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7000"}})...)
			var decoded atomic.Int64
			src := sourceOf(t, sent(t, e, body, &query), podsAs(e), Options{})
			st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{Selection: object.Selection{Shard: shard}}, counting(&decoded)))(t)
			events, err := drain(st)
			st.Close()
			if err != io.EOF || len(events) != n+1 || !events[n].Bookmark || events[n].Item.Version != "7000" {
				t.Fatalf("%s %s: %d events, %v", e, shard, len(events), err)
			}
			in := 0
			for i, ev := range events[:n] {
				p := pod(i)
				inside := shard.Contains(p.UID, p.Namespace)
				if inside {
					in++
				}
				// The version of each event says how far the server has come.
				if ev.Item.Outside == inside || string(ev.Item.Version) != p.ResourceVersion || ev.Kind != []object.Kind{object.Added, object.Updated, object.Deleted}[i%3] ||
					inside != (ev.Item.Object != nil) || ev.Item.Err != nil {
					t.Fatalf("%s %s: event %d is %+v", e, shard, i, ev)
				}
			}
			if int(decoded.Load()) != in {
				t.Errorf("%s %s: %d objects decoded, want %d", e, shard, decoded.Load(), in)
			}
			if query.Get("shardSelector") != shard.Selector() || query.Get("watch") != "true" {
				t.Errorf("%s: the request is %v", e, query)
			}
		}
	}
}

func TestP05_ShardInfoConfirmsTheShard(t *testing.T) {
	half := object.Part(object.ByUID, 0, 2)
	for _, e := range encodings {
		for _, c := range []struct {
			asked   object.Shard
			info    *metav1.ShardInfo
			sharded bool
			corrupt bool
		}{
			{asked: half, info: &metav1.ShardInfo{Selector: half.Selector()}, sharded: true},
			{asked: half},
			{},
			{asked: half, info: &metav1.ShardInfo{Selector: object.Part(object.ByUID, 1, 2).Selector()}, corrupt: true},
			{info: &metav1.ShardInfo{Selector: half.Selector()}, corrupt: true},
		} {
			list := podList(0)
			list.Items, list.ShardInfo = []corev1.Pod{}, c.info
			page, err := bytesSource(t, e, wireBytes(e, list), Options{}).List(t.Context(), object.ListOptions{Selection: object.Selection{Shard: c.asked}}, nil, nil)
			if page.Sharded != c.sharded || errors.Is(err, object.ErrCorrupt) != c.corrupt || err != nil && !c.corrupt {
				t.Errorf("%s, requested %s, shardInfo %v: %+v, %v", e, c.asked, c.info, page, err)
			}
		}
	}
}

func TestASourceOfAShardHasNoOther(t *testing.T) {
	half, other := object.Part(object.ByUID, 0, 2), object.Part(object.ByUID, 1, 2)
	var query url.Values
	api := wire.For(sent(t, wire.Protobuf, wireBytes(wire.Protobuf, podList(20)), &query), podsAs(wire.Protobuf))
	src := wiretest.Must(NewSource(api, object.Selection{Shard: half}, Options{}))(t)
	list := wiretest.Must(src.Collect(t.Context(), object.ListOptions{}))(t)
	for _, item := range list.Items {
		if !half.Contains(item.UID, item.Key.Namespace) {
			t.Errorf("%s is not in the shard", item.Key)
		}
	}
	if list.Shard != half || query.Get("shardSelector") != half.Selector() {
		t.Errorf("the list is of %s, the request %v", list.Shard, query)
	}
	if _, err := src.Collect(t.Context(), object.ListOptions{Selection: object.Selection{Shard: other}}); err == nil {
		t.Error("a list of another shard")
	}
	if err := api.DeleteCollection(t.Context(), object.Selection{Namespace: "shop-1", Shard: half}, wire.DeleteOptions{}); err == nil {
		t.Error("a server that ignores the shard would delete everything")
	}
}

// An object outside of the shard costs no allocation, however large it is.
func TestP05_ObjectsOutsideCostNoAllocation(t *testing.T) {
	soak.Measures(t)
	const n = 4000
	sel := object.Selection{Shard: object.NewShard(object.ByUID)}
	for _, e := range encodings {
		src := sourceOf(t, bodyClient(t, mediaOf(e), func() io.Reader { return longList(t, e, n) }), podsAs(e), Options{})
		allocs := testing.AllocsPerRun(5, func() {
			if _, err := src.List(t.Context(), object.ListOptions{Selection: sel}, nil, func(object.Item[*corev1.Pod]) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
		if allocs/n > 0.1 {
			t.Errorf("%s: %.2f allocations an item", e, allocs/n)
		}
	}
}
