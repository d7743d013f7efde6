package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	hashLow, hashMiddle, hashHigh = "0x0000000000000000", "0x8000000000000000", "0x10000000000000000"
	hashOne                       = "0x0000000000000001"
)

// inShard returns the query parameter of a shard with one range by UID.
func inShard(start, end string) string {
	return "shardSelector=" + url.QueryEscape(shardRange("object.metadata.uid", start, end))
}

func shardRange(field, start, end string) string {
	return fmt.Sprintf("shardRange(%s, '%s', '%s')", field, start, end)
}

// UIDs and names of namespaces differ from server to server, so these shards have all objects or none.
var shards = []exchange{
	configMap("a", `"labels":{"app":"x"}`),
	configMap("b", ``),
	{name: "P05 all hashes", query: inShard(hashLow, hashHigh)},
	{name: "P05 one hash", query: inShard(hashLow, hashOne)},
	{name: "P05 two ranges", query: "shardSelector=" + url.QueryEscape(shardRange("object.metadata.uid", hashMiddle, hashHigh)+"||"+shardRange("object.metadata.uid", hashLow, hashMiddle))},
	{name: "P05 by namespace", query: "shardSelector=" + url.QueryEscape(shardRange("object.metadata.namespace", hashLow, hashHigh))},
	{name: "P05 in other spaces and quotes", query: "shardSelector=" + url.QueryEscape(`  shardRange( object.metadata.uid,"`+hashLow+`" , '`+hashHigh+`') `)},
	{name: "P05 128 ranges", query: "shardSelector=" + url.QueryEscape(manyRanges(128))},
	{name: "P05 a first page", query: "limit=1&" + inShard(hashLow, hashHigh), save: "page"},
	{name: "P05 a second page", query: "limit=1&continue={page.continue}&" + inShard(hashLow, hashHigh)},
	{name: "P05 a page of nothing", query: "limit=1&" + inShard(hashLow, hashOne)},
	{name: "P05 any state", query: "resourceVersion=0&" + inShard(hashLow, hashHigh)},
	{name: "P05 exactly", query: "resourceVersion={a.version}&resourceVersionMatch=Exact&limit=500&" + inShard(hashLow, hashHigh)},
	{name: "P05 a label", query: "labelSelector=app&" + inShard(hashLow, hashHigh)},
	{name: "P05 a table", query: inShard(hashLow, hashHigh), accept: asTable},
	{name: "P05 metadata", query: inShard(hashLow, hashHigh), accept: asMetaList},
	{name: "P05 protobuf", query: inShard(hashLow, hashHigh), accept: asProtobuf},
	{name: "P05 an empty selector", query: "shardSelector="},
	{name: "P05 a watch", query: "watch=1&resourceVersion={a.version}&" + inShard(hashLow, hashHigh), events: 1},
	{name: "P05 a streaming list", query: "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&" + inShard(hashLow, hashHigh), events: 3},
	{name: "P05 a streaming list of nothing", query: "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&" + inShard(hashLow, hashOne), events: 1},
	{name: "P05 a field that cannot be hashed", query: "shardSelector=" + url.QueryEscape(shardRange("object.metadata.name", hashLow, hashHigh))},
	{name: "P05 two fields", query: "shardSelector=" + url.QueryEscape(shardRange("object.metadata.uid", hashLow, hashHigh)+" || "+shardRange("object.metadata.namespace", hashLow, hashHigh))},
	{name: "P05 a range that ends before it starts", query: inShard(hashMiddle, hashLow)},
	{name: "P05 a range without its end", query: "shardSelector=" + url.QueryEscape("shardRange(object.metadata.uid, '"+hashLow+"')")},
	{name: "P05 a bound that is too short", query: inShard("0x0", hashHigh)},
	{name: "P05 a watch of an invalid shard", query: "watch=1&" + inShard("0x0", hashHigh)},
	{name: "P05 a bound without a prefix", query: inShard("8000000000000000", hashHigh)},
	{name: "P05 a bound without digits", query: inShard(hashLow, "0x")},
	{name: "P05 a bound that is too long", query: inShard(hashLow, hashHigh+"0")},
	{name: "P05 a bound beyond the last hash", query: inShard(hashLow, "0x10000000000000001")},
	{name: "P05 a bound in upper case", query: inShard(hashLow, "0x800000000000000F")},
	{name: "P05 another function", query: "shardSelector=" + url.QueryEscape("size(object.metadata.uid)")},
	{name: "P05 nonsense", query: "shardSelector=nonsense"},
	{name: "P05 delete a shard without objects", method: "DELETE", query: inShard(hashLow, hashOne)},
	{name: "P05 everything is still there"},
}

// manyRanges returns n ranges that are not merged and have all hashes.
func manyRanges(n int) string {
	var terms []string
	for i := range n {
		for r := range object.Part(object.ByUID, i, n).Ranges() {
			start, end := r.Bounds()
			terms = append(terms, shardRange("object.metadata.uid", start, end))
		}
	}
	return strings.Join(terms, " || ")
}

// sharding are servers that shard and servers that do not.
func sharding(t *testing.T, test func(t *testing.T, s server, shards bool)) {
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t), true) })
	t.Run("embedded, off", func(t *testing.T) {
		e := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true, NoSharding: true})
		s := server{config: e.Config(), address: e.Addr().String(), embedded: e}
		s.namespace = s.newNamespace(t)
		test(t, s, false)
	})
	t.Run("real", func(t *testing.T) { test(t, genuine(t), true) })
	t.Run("real, off", func(t *testing.T) {
		plane := controlplane.Start(t, controlplane.Options{})
		s := server{config: plane.Config(), address: plane.Address(), plane: plane}
		s.namespace = s.newNamespace(t)
		test(t, s, false)
	})
}

// Five mirrors divide the objects among them, however the server answers, and hand parts over.
func TestP05_MirrorsOfShardsDivideTheObjects(t *testing.T) {
	sharding(t, func(t *testing.T, s server, shards bool) {
		ctx := patience.Context(t)
		maps := s.clientset(t).CoreV1().ConfigMaps(s.namespace)
		const n, parts = 100, 5
		make1 := func(i int) {
			if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%03d", i)}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			make1(i)
		}
		for _, streaming := range []reflector.Mode{reflector.StreamingOff, reflector.StreamingOn} {
			var mirrors []*mirror[*corev1.ConfigMap]
			part := func(i, of int) object.Shard {
				if i >= of {
					return object.NewShard(object.ByUID)
				}
				return object.Part(object.ByUID, i, of)
			}
			for i := range parts {
				mirrors = append(mirrors, startMirror(t, s.config, wire.MustOf[*corev1.ConfigMap](), mirrorOptions[*corev1.ConfigMap]{
					selection: object.Selection{Namespace: s.namespace, Shard: part(i, parts)},
					reflector: reflector.Options[*corev1.ConfigMap]{Streaming: streaming, PageSize: 7},
				}))
			}
			check := func(of, want int) {
				t.Helper()
				patience.Until(t, "all objects are in one mirror each", func() bool {
					var names []string
					for i, m := range mirrors {
						snap := m.Snapshot()
						for obj := range snap.All() {
							names = append(names, obj.Name)
						}
						snap.Release()
						if m.Shard() != part(i, of) {
							return false // what it no longer has is still to be removed
						}
					}
					slices.Sort(names)
					return len(names) == want && len(slices.Compact(names)) == want
				})
				for i, m := range mirrors {
					snap := m.Snapshot()
					for obj := range snap.All() {
						if !part(i, of).Contains(obj.UID, obj.Namespace) {
							t.Errorf("%s is not in part %d of %d", obj.Name, i, of)
						}
					}
					snap.Release()
				}
			}
			check(parts, n)
			for _, of := range []int{4, 2, 3, 5, 1, 5} {
				for i, m := range mirrors {
					if err := m.SetShard(part(i, of)); err != nil {
						t.Fatal(err)
					}
				}
				if err := maps.Delete(ctx, "map-000", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				for _, m := range mirrors {
					if err := m.WaitSynced(ctx); err != nil {
						t.Fatal(err)
					}
				}
				check(of, n-1)
				make1(0)
				check(of, n)
			}
			for i, m := range mirrors {
				st := m.Sources()[0].Reflector
				t.Logf("part %d, streaming %v: sharding by the %v, %+v", i, streaming, st.Sharding, st.Counts)
				if shards != (st.Counts.Outside == 0) || streaming == reflector.StreamingOff && shards != (st.Sharding == reflector.ShardingServer) {
					t.Errorf("the server shards: %v, but part %d has sharding %v and %d objects outside", shards, i, st.Sharding, st.Counts.Outside)
				}
			}
		}
	})
}
