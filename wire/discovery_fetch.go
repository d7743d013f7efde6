package wire

import (
	"context"
	"errors"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"

	"github.com/tarnproject/tarn/object"
)

// acceptDiscovery requests all groups in one response, which all supported servers have.
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// fetcher collects the resources of a server.
type fetcher struct {
	client  *Client
	all     []Discovered
	found   int // groups and versions, with or without resources
	skipped map[string]error
}

// root reads /api or /apis.
func (f *fetcher) root(ctx context.Context, path string) error {
	res, err := f.client.Request(VerbGet).AbsPath(path).Accept(acceptDiscovery).Do(ctx)
	if err != nil {
		return err
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := res.into(&list, apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")); err != nil {
		return err
	}
	for _, g := range list.Items {
		f.group(g)
	}
	return nil
}

// group adds a group of the aggregated response. Its first version is the preferred one.
func (f *fetcher) group(g apidiscovery.APIGroupDiscovery) {
	for i, v := range g.Versions {
		f.found++
		if v.Freshness == apidiscovery.DiscoveryFreshnessStale {
			f.skipped[g.Name+"/"+v.Version] = errStale
			// The server's last known resources of the group are still used.
		}
		for _, r := range v.Resources {
			d := Discovered{
				Resource:   object.Resource{Group: g.Name, Version: v.Version, Resource: r.Resource},
				Singular:   strings.ToLower(r.SingularResource),
				ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs,
				Preferred: i == 0,
			}
			d.Namespaced = r.Scope == apidiscovery.ScopeNamespace
			if r.ResponseKind != nil {
				d.Kind = r.ResponseKind.Kind
			}
			for _, sub := range r.Subresources {
				d.Subresources = append(d.Subresources, sub.Subresource)
			}
			// A group with only subresources has an entry without a kind.
			if d.Kind != "" && len(d.Verbs) > 0 {
				f.all = append(f.all, d)
			}
		}
	}
}

var errStale = errors.New("the aggregated API server does not respond")
