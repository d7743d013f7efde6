package tarn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// The controller has the name of a parent. A mirror of its children need not have an object of that name.
func TestExplainDoesNotLookForTheParentAmongTheChildren(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		nodes, namespaces := must(tarn.MirrorOf[*corev1.Node](r.Cluster)), must(tarn.MirrorOf[*corev1.Namespace](r.Cluster))
		must(tarn.NewController(r.Cluster, "tenants", func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil },
			tarn.For(nodes), tarn.Owns(namespaces)))
		for _, name := range []string{"a", "b"} {
			r.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		r.start()
		simtest.Advance(time.Second)
		for key, want := range map[string]string{"a": "nodes true", "b": "namespaces true nodes true", "c": "nodes false"} {
			x := consoleJSON[console.Explanation](t, r.Handler(), "explain", "key", key)
			var got []string
			for _, o := range x.Controllers[0].Objects {
				got = append(got, fmt.Sprint(o.Mirror, " ", o.Exists))
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: %s, want %s", key, text, want)
			}
		}
	})
}
