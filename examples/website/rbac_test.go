package main

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
	"github.com/tarnproject/tarn/wire"
)

// permission is what one request needs, or a role grants. Namespace is empty for all.
type permission struct{ namespace, verb, resource string }

// unused are the permissions that the roles grant and this program does not use, with the reason.
var unused = map[string][]string{
	"mirrors list where the server has no streaming lists": {"list deployments", "list services", "list websites"},
	"for Client.GetUncached":                               {"get deployments", "get services", "get websites"},
	"for owner references that block deletion; see the admission plugin OwnerReferencesPermissionEnforcement": {
		"update deployments/finalizers", "update services/finalizers", "update websites/finalizers"},
	"a client may write with every verb, and this program does not": {
		"patch deployments", "delete deployments", "update deployments/status", "patch deployments/status",
		"update services", "patch services", "delete services", "update services/status", "patch services/status",
		"create websites", "update websites", "delete websites", "update websites/status"},
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
	test(t, func(o *operator) {
		o.dns.setBroken(true) // for events, and repeated ones
		o.createSite()
		<-time.After(10 * time.Minute)
		o.dns.setBroken(false)
		o.eventually("deployed", func() bool { return o.deployed("web:1") })
		o.kubelet()
		o.eventually("ready", o.ready)
		o.patchSite(map[string]any{"spec": map[string]any{"image": "web:2"}})
		o.eventually("updated", func() bool { return o.deployed("web:2") })
		if err := wire.For(o.user, wire.MustOf[*appsv1.Deployment]()).Delete(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"}, wire.DeleteOptions{}); err != nil {
			o.t.Fatal(err)
		}
		o.eventually("deployed again", func() bool { return o.deployed("web:2") })
		if err := wire.For(o.user, wire.MustOf[*v1.Website]()).Delete(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"}, wire.DeleteOptions{}); err != nil {
			o.t.Fatal(err)
		}
		o.eventually("removed", func() bool { _, err := get[*v1.Website](o); return apierrors.IsNotFound(err) })

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
		rules := o.cluster.RBAC()
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
				o.t.Errorf("needed, but not granted: %+v", p)
			}
		}
		for p := range granted {
			explained := false
			for _, list := range unused {
				explained = explained || slices.Contains(list, p.verb+" "+p.resource)
			}
			if sent[p] == explained {
				o.t.Errorf("granted %+v; used %v, listed as unused %v", p, sent[p], explained)
			}
		}
	}, tarn.WithNamespace("website-system"), tarn.WithObservers(nil, observe))
}

// The operator works as the ServiceAccount of its manifests, with no other permissions.
func TestTheOperatorWorksWithItsOwnPermissions(t *testing.T) {
	account := func(srv *apiserver.Server) *rest.Config {
		for _, file := range []string{"config/rbac.yaml", "config/deployment.yaml"} {
			text, err := os.ReadFile(file)
			if err == nil {
				err = srv.LoadYAML(text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := srv.ServiceAccountConfig("website-system", "website")
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	testAs(t, apiserver.Options{RBAC: true, AnyNamespace: true}, account, func(o *operator) {
		o.dns.setBroken(true) // for events
		o.createSite()
		<-time.After(time.Minute)
		o.dns.setBroken(false)
		o.eventually("deployed", func() bool { return o.deployed("web:1") })
		o.kubelet()
		o.eventually("ready", o.ready)
		if err := wire.For(o.user, wire.MustOf[*v1.Website]()).Delete(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"}, wire.DeleteOptions{}); err != nil {
			o.t.Fatal(err)
		}
		o.eventually("removed", func() bool { _, err := get[*v1.Website](o); return apierrors.IsNotFound(err) })
		for _, denied := range o.srv.Denied() {
			o.t.Error(denied)
		}
	}, tarn.WithNamespace("website-system"))
}
