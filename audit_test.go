package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/store"
)

func TestAnAuditNamesEveryDifference(t *testing.T) {
	var text strings.Builder
	withCluster(t, []tarn.ConnectOption{tarn.WithAudit(time.Hour)}, func(t *testing.T, r *testCluster) {
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		must(tarn.MirrorOf[*corev1.Secret](r.Cluster))
		for i := range 1200 { // more than two pages
			must(r.srv.Create(pod("shop", fmt.Sprintf("web-%04d", i), "node")))
		}
		r.start()
		old, _ := pods.Get(key("shop", "web-0001"))
		must(r.srv.Update(relabelled(old, "node", "other")))
		synctest.Wait()

		result := must(r.Audit(t.Context()))
		if len(result) != 2 || result["pods"].Objects != 1200 || result["pods"].Count() != 0 || result["secrets"].Objects != 0 {
			t.Fatalf("audits of correct mirrors: %+v", result)
		}
		pods.Informer().Edit(func(s *store.Store[*corev1.Pod]) {
			invented := pod("shop", "invented", "node")
			invented.UID, invented.ResourceVersion = "0", "1"
			if err := errors.Join(s.Set(invented), s.Set(old)); err != nil || !s.Delete(key("shop", "web-1100")) {
				t.Error(err)
			}
		})
		found := must(pods.Audit(t.Context()))
		var keys []string
		for _, d := range found.Differences {
			keys = append(keys, d.Key.Name)
			fmt.Fprintln(&text, d)
		}
		if want := []string{"invented", "web-0001", "web-1100"}; !slices.Equal(keys, want) || found.Count() != 3 || found.Objects != 1200 {
			t.Errorf("%d objects, differences %v, want %v", found.Objects, keys, want)
		}
		if !strings.Contains(text.String(), "shop/invented: the mirror has version 1 of 0, the server no object\n") || strings.Count(text.String(), "no object") != 2 {
			t.Errorf("differences:\n%s", text.String())
		}
		if st := pods.Status().Informer.Audit; st == nil || st.Count() != 3 {
			t.Errorf("the status has the audit %+v", st)
		}
	})
}

// relabelled returns a copy of a pod with another label.
func relabelled(p *corev1.Pod, label, value string) *corev1.Pod {
	p = p.DeepCopy()
	metav1.SetMetaDataLabel(&p.ObjectMeta, label, value)
	return p
}

// Objects change while the audit pages through them, watches are cut, and history is compacted.
func TestAnAuditOfAChangingMirrorFindsNothing(t *testing.T) {
	for seed := range soak.Rounds(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			withCluster(t, nil, func(t *testing.T, r *testCluster) {
				scopes := [][]tarn.Option{nil, {tarn.InNamespaces("a", "b")}, {tarn.Matching("app")}, {tarn.Compact()}}
				pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster, scopes[random.IntN(len(scopes))]...))
				r.start()
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					churn(ctx, r.srv, rand.New(rand.NewPCG(uint64(seed), 2)))
				}()
				for range 5 {
					<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
					// The server may have compacted the version while a watch backed off.
					if result, err := pods.Audit(ctx); result.Count() != 0 || err != nil && !apierrors.IsResourceExpired(err) {
						t.Errorf("audit: %v, %v", result.Differences, err)
					}
				}
				stop()
				<-done
				if result, err := pods.Audit(t.Context()); err != nil || result.Count() != 0 {
					t.Errorf("audit at the end: %v, %v", result.Differences, err)
				}
			})
		})
	}
}

// churn changes pods in two namespaces until the context is done.
func churn(ctx context.Context, srv *apiserver.Server, random *rand.Rand) {
	for ctx.Err() == nil {
		p := pod([]string{"a", "b"}[random.IntN(2)], fmt.Sprint("web-", random.IntN(30)), fmt.Sprint(random.IntN(100)))
		switch n := random.IntN(200); {
		case n == 0:
			srv.Compact(300 + random.IntN(50))
		case n < 3:
			srv.Cut("pods")
		case n < 80:
			_ = srv.Delete(p) // it may not exist
		default:
			if random.IntN(4) == 0 {
				p.Labels = nil
			}
			if _, err := srv.Create(p); err != nil {
				_, _ = srv.Update(p) // it exists
			}
		}
		if random.IntN(3) == 0 {
			<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
		}
	}
}
