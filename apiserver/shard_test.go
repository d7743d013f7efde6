package apiserver_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

func TestP05_ListsAreShardedUnlessTheServerCannot(t *testing.T) {
	for _, off := range []bool{false, true} {
		s := apiserver.Start(t, apiserver.Options{NoSharding: off, Seed: 1})
		var objs []runtime.Object
		var all []string
		for i := range 40 {
			name := fmt.Sprintf("p%02d", i)
			objs, all = append(objs, pod(name)), append(all, name)
		}
		fill(t, s, objs...)
		var names []string
		const parts = 4
		for i := range parts {
			selector := object.Part(object.ByUID, i, parts).Selector()
			a := get(t, s, pods+"?shardSelector="+url.QueryEscape(selector))
			names = append(names, a.names()...)
			if off && (len(a.names()) != len(all) || a.at("metadata", "shardInfo") != "") {
				t.Errorf("a server that does not shard answers part %d with %s", i, a.raw)
			}
			if !off && (a.at("metadata", "shardInfo", "selector") != selector || len(a.names()) == 0) {
				t.Errorf("part %d is %s", i, a.raw)
			}
		}
		slices.Sort(names)
		if !off && !slices.Equal(names, all) {
			t.Errorf("the parts have %v", names)
		}
		if a := get(t, s, pods+"?shardSelector=nonsense"); off != (a.code == http.StatusOK) {
			t.Errorf("off %v: an invalid selector gets %d %s", off, a.code, a.raw)
		}
	}
}
