package controllerruntime

import (
	"context"
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/tarnproject/tarn"
)

// ClusterOf returns the cluster behind a cache, which has its status, its permissions, audits, and as
// Handler its metrics and its console:
//
//	cluster, _ := controllerruntime.ClusterOf(mgr.GetCache())
//	err := mgr.AddMetricsServerExtraHandler("/debug/tarn/", cluster.Handler())
//
// The cache runs it. ok is false if the cache is not one of [NewCache].
func ClusterOf(c cache.Cache) (cluster *tarn.Cluster, ok bool) {
	m, ok := c.(*mirrorCache)
	if !ok {
		return nil, false
	}
	return m.cluster, true
}

var errNotStarted = errors.New("the cache has not been started")

// Ready returns a readiness check that fails until every informer of the cache is synced. Its error names
// those that are not, with the cause:
//
//	err := mgr.AddReadyzCheck("cache", controllerruntime.Ready(mgr.GetCache()))
//
// The check of a cache that is not one of [NewCache] always passes.
func Ready(c cache.Cache) healthz.Checker {
	return func(*http.Request) error {
		m, ok := c.(*mirrorCache)
		if !ok {
			return nil
		}
		if !m.isStarted() {
			return errNotStarted
		}
		now, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("checked"))
		return m.cluster.WaitSynced(now)
	}
}
