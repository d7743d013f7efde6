package operators

import (
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/e2e/operators/memcached"
	"github.com/tarnproject/tarn/e2e/patience"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newMemcached(namespace string) *memcached.Memcached {
	return &memcached.Memcached{
		ObjectMeta: metav1.ObjectMeta{Name: "test-memcached", Namespace: namespace},
		Spec:       memcached.Spec{Size: 1, ContainerPort: 11211},
	}
}

// serves reports whether the Deployment has the size and the status says so.
func serves(t testing.TB, c client.Client, key client.ObjectKey, size int32) bool {
	var d appsv1.Deployment
	var m memcached.Memcached
	if c.Get(t.Context(), key, &d) != nil || c.Get(t.Context(), key, &m) != nil || !metav1.IsControlledBy(&d, &m) || *d.Spec.Replicas != size {
		return false
	}
	condition := meta.FindStatusCondition(m.Status.Conditions, "Available")
	return condition != nil && condition.Status == metav1.ConditionTrue && strings.Contains(condition.Message, "created successfully")
}

// The tutorial's test, and the rest of what it describes.
func TestAMemcached(t *testing.T) {
	onBoth(t, memcacheds, memcached.Definition, func(t *testing.T, c client.Client, namespace string) {
		m := newMemcached(namespace)
		m.Spec.Size = 6
		if err := c.Create(t.Context(), m); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.size in body should be less than or equal to 5") {
			t.Errorf("a size that is too large: %v", err)
		}
		m.Spec.Size = 1
		create(t, c, m)
		key := client.ObjectKeyFromObject(m)
		patience.Until(t, "one server", func() bool { return serves(t, c, key, 1) })
		for {
			if err := c.Get(t.Context(), key, m); err != nil {
				t.Fatal(err)
			}
			m.Spec.Size = 3
			err := c.Update(t.Context(), m)
			if err == nil {
				break
			} else if !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
		}
		patience.Until(t, "three servers", func() bool { return serves(t, c, key, 3) })
		if err := c.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		patience.Until(t, "the end", func() bool { return apierrors.IsNotFound(c.Get(t.Context(), key, m)) })
	})
}

func TestAMemcachedWhereverItsOperatorCrashes(t *testing.T) {
	opts := apiserver.ExploreOptions{
		Server: apiserver.Options{Schemas: schemas, CollectGarbage: true}, StaleCache: 2 * time.Second,
		Faults: []apiserver.FaultKind{apiserver.KillBefore, apiserver.KillAfter, apiserver.Conflict, apiserver.WebhookDown},
	}
	for with, newCache := range caches {
		t.Run("explored"+with, func(t *testing.T) { exploreMemcached(t, opts, operator(memcacheds).with(newCache)) })
	}
}

func exploreMemcached(t *testing.T, opts apiserver.ExploreOptions, run program) {
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		if err := server.LoadYAML(memcached.Definition); err != nil {
			t.Fatal(err)
		}
		server.Supervise(t, run)
		c, m := newClient(t, server.MemoryConfig()), newMemcached("default")
		key := client.ObjectKeyFromObject(m)
		create(t, c, m)
		wait := func() {
			if err := server.WaitIdle(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		wait()
		if !serves(t, c, key, 1) {
			t.Error("no server")
		}
		if err := c.Get(t.Context(), key, m); err != nil {
			t.Fatal(err)
		}
		m.Spec.Size = 2
		if err := c.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		wait()
		if !serves(t, c, key, 2) {
			t.Error("not two servers")
		}
		if err := c.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		wait()
		if err := c.Get(t.Context(), key, m); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion: %v", err)
		}
		if err := c.Get(t.Context(), key, new(appsv1.Deployment)); !apierrors.IsNotFound(err) {
			t.Errorf("the Deployment after the deletion: %v", err)
		}
	})
}
