package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tarnproject/tarn"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
	"github.com/tarnproject/tarn/tarntest"
	"github.com/tarnproject/tarn/wire"
)

// permission is what one request needs, or a role grants. Namespace is empty for all.
type permission struct{ namespace, verb, resource string }

// unused are the permissions that the roles grant and this program does not use, with the reason.
var unused = map[string][]string{
	"mirrors list where the server has no streaming lists": {"list deployments", "list services", "list websites"},
	"for Client.GetUncached":                               {"get deployments", "get services", "get websites"},
	"for owner references that block deletion; see the admission plugin OwnerReferencesPermissionEnforcement": {"update websites/finalizers"},
}

// The program sends no request that its roles do not permit, and they grant no more than it uses,
// except what is explained above.
func TestTheRolesAreUsed(t *testing.T) {
	var mu sync.Mutex // guards sent
	sent := map[permission]bool{}
	observe := func(ctx context.Context, start wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
		mu.Lock()
		defer mu.Unlock()
		resource := start.Call.Resource.Resource
		if start.Call.Subresource != "" {
			resource += "/" + start.Call.Subresource
		}
		sent[permission{start.Call.Key.Namespace, start.Call.Verb, resource}] = true
		return ctx, nil
	}
	synctest.Test(t, func(t *testing.T) {
		o := start(t, &fakeDNS{broken: true}, tarntest.Options{Connect: []tarn.ConnectOption{tarn.WithObservers(nil, observe)}})
		<-time.After(10 * time.Minute) // for events, and repeated ones
		o.live()

		granted := map[permission]bool{}
		grant := func(namespace string, rules []rbacv1.PolicyRule) {
			for _, rule := range rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[permission{namespace, verb, resource}] = true
					}
				}
			}
		}
		rules := o.Cluster().RBAC()
		grant("", rules.Cluster)
		for namespace, rules := range rules.Namespaces {
			grant(namespace, rules)
		}
		mu.Lock()
		defer mu.Unlock()
		for p := range sent {
			everywhere := permission{"", p.verb, p.resource}
			switch {
			case granted[everywhere]:
				sent[everywhere] = true
			case !granted[p]:
				t.Errorf("needed, but not granted: %+v", p)
			}
		}
		for p := range granted {
			explained := false
			for _, list := range unused {
				explained = explained || slices.Contains(list, p.verb+" "+p.resource)
			}
			if sent[p] == explained {
				t.Errorf("granted %+v; used %v, listed as unused %v", p, sent[p], explained)
			}
		}
	})
}

// live does everything that a user can do to the site.
func (o *operator) live() {
	o.Helper()
	o.dns.setBroken(false)
	o.Eventually("deployed", o.deployed(get[*v1.Website](o, sampleKey).Spec.Image))
	o.kubelet()
	o.Eventually("ready", o.ready)
	o.setImage("web:2")
	o.Eventually("updated", o.deployed("web:2"))
	update(o, childrenKey, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	o.Eventually("corrected", func() bool { return get[*corev1.Service](o, childrenKey).Spec.Ports[0].Port == 80 })
	o.delete(get[*appsv1.Deployment](o, childrenKey))
	o.Eventually("deployed again", o.deployed("web:2"))
	o.delete(get[*v1.Website](o, sampleKey))
	o.Eventually("removed", o.removed)
}

// The operator works as the ServiceAccount of its manifests, with no other permissions.
func TestTheOperatorWorksWithItsOwnPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, &fakeDNS{broken: true}, tarntest.Options{ServiceAccount: tarn.Key{Namespace: "website-system", Name: "website"}})
		<-time.After(time.Minute) // for events
		o.live()
	})
}
