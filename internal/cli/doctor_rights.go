package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// allArguments is the value of a bare --for-controller.
const allArguments = "*"

// right is what a controller does with a resource or subresource.
type right struct {
	check       string
	res         object.Resource
	subresource string
	verbs       []string
}

// name returns the resource as RBAC rules name it.
func (r right) name() string {
	return strings.TrimSuffix(r.res.Resource+"/"+r.subresource, "/")
}

// writeRights returns what a controller needs to write a resource: the object, its status, and its
// finalizers, which are needed to set owner references where the server checks them.
func writeRights(d wire.Discovered) []right {
	verbs := slices.DeleteFunc([]string{"create", "update", "patch", "delete"}, func(verb string) bool { return !slices.Contains(d.Verbs, verb) })
	var rights []right
	if len(verbs) > 0 {
		rights = append(rights, right{"write", d.Resource, "", verbs})
	}
	if slices.Contains(d.Subresources, "status") {
		rights = append(rights, right{"status", d.Resource, "status", []string{"update", "patch"}})
	}
	return append(rights, right{"finalizers", d.Resource, "finalizers", []string{"update"}})
}

// ownRights returns what a controller needs besides its resources: a lease to elect a leader, and
// events.
func ownRights() []right {
	lease := object.Resource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Kind: "Lease", Namespaced: true}
	event := object.Resource{Group: "events.k8s.io", Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}
	return []right{
		{"leader election", lease, "", []string{"get", "create", "update"}},
		{"events", event, "", []string{"create", "patch"}},
	}
}

// checkRights asks the server for each right of a controller. It returns the findings and the
// rules that are missing.
func checkRights(ctx context.Context, client *wire.Client, flags doctorFlags, namespace string, targets []wire.Discovered) ([]*chart, tarn.Rules) {
	missing := tarn.Rules{Name: "tarn-controller", Namespaces: map[string][]rbacv1.PolicyRule{}}
	var charts []*chart
	examine := func(c *chart, rights []right) {
		charts = append(charts, c)
		for _, r := range rights {
			lacking, err := lackingVerbs(ctx, client, r, c.Namespace, flags)
			switch {
			case err != nil:
				c.find(r.check, broken, errorText(err), "check whether the server supports SelfSubjectAccessReviews")
			case len(lacking) > 0:
				c.find(r.check, broken, r.name()+": "+strings.Join(lacking, ", ")+" not allowed", "grant the missing RBAC rules below to the context's user")
				rule := rbacv1.PolicyRule{APIGroups: []string{r.res.Group}, Resources: []string{r.name()}, Verbs: lacking}
				if c.Namespace == "" {
					missing.Cluster = append(missing.Cluster, rule)
				} else {
					missing.Namespaces[c.Namespace] = append(missing.Namespaces[c.Namespace], rule)
				}
			default:
				c.find(r.check, fine, r.name()+": "+strings.Join(r.verbs, ", "), "")
			}
		}
	}
	for _, d := range targets {
		examine(&chart{Resource: d.String(), Version: d.GVK().GroupVersion().String(), Namespace: flags.of(d.Resource, namespace).Namespace, need: d.Resource}, writeRights(d))
	}
	// A controller's lease is in one namespace, its events are where its objects are.
	for _, r := range ownRights() {
		c := &chart{Resource: r.res.String(), Version: r.res.GVK().GroupVersion().String(), Namespace: namespace, need: r.res}
		if r.res.Kind == "Event" {
			c.Namespace = flags.of(r.res, namespace).Namespace
		}
		examine(c, []right{r})
	}
	return charts, missing
}

// lackingVerbs returns the verbs of a right that the user does not have.
func lackingVerbs(ctx context.Context, client *wire.Client, r right, namespace string, flags doctorFlags) (lacking []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	for _, verb := range r.verbs {
		review := authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: r.res.Group, Version: r.res.Version, Resource: r.res.Resource, Subresource: r.subresource,
			}},
		}
		body, err := json.Marshal(review)
		if err != nil {
			return nil, err
		}
		result, err := client.Request(http.MethodPost).AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
			Body("application/json", body).Accept("application/json").Idempotent().Do(ctx)
		if err == nil {
			err = result.Into(&review)
		}
		if err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			lacking = append(lacking, verb)
		}
	}
	return lacking, nil
}
