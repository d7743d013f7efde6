package wire

import (
	"context"
	"errors"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// acceptDiscovery requests all groups in one response, which servers support since 1.27. v2beta1
// has the same fields.
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," +
	"application/json"

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
	var kind metav1.TypeMeta
	if err := res.into(&kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "APIGroupDiscoveryList":
		var list apidiscovery.APIGroupDiscoveryList
		if err := res.into(&list); err != nil {
			return err
		}
		for _, g := range list.Items {
			f.group(g)
		}
		return nil
	case "APIVersions":
		var versions metav1.APIVersions
		if err := res.into(&versions); err != nil {
			return err
		}
		return f.legacy(ctx, "", versions.Versions, "")
	default:
		var groups metav1.APIGroupList
		if err := res.into(&groups, schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"}); err != nil {
			return err
		}
		for _, g := range groups.Groups {
			var versions []string
			for _, v := range g.Versions {
				versions = append(versions, v.Version)
			}
			if err := f.legacy(ctx, g.Name, versions, g.PreferredVersion.Version); err != nil {
				return err
			}
		}
		return nil
	}
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

// legacy requests each version of a group separately, the preferred one first.
func (f *fetcher) legacy(ctx context.Context, group string, versions []string, preferred string) error {
	if preferred == "" && len(versions) > 0 {
		preferred = versions[0]
	}
	slices.SortStableFunc(versions, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == preferred:
			return -1
		case b == preferred:
			return +1
		}
		return 0
	})
	for _, version := range versions {
		f.found++
		gv := schema.GroupVersion{Group: group, Version: version}
		path := "/apis/" + gv.String()
		if group == "" {
			path = "/api/" + version
		}
		// A broken aggregated API server must not delay the others for long.
		res, err := f.client.Request(VerbGet).AbsPath(path).Retries(1).Do(ctx)
		if ctx.Err() != nil {
			return err
		}
		var list metav1.APIResourceList
		if err == nil {
			err = res.into(&list, schema.GroupVersionKind{Version: "v1", Kind: "APIResourceList"})
		}
		if err != nil {
			f.skipped[gv.String()] = err
			continue
		}
		f.resources(gv, list.APIResources, version == preferred)
	}
	return nil
}

func (f *fetcher) resources(gv schema.GroupVersion, list []metav1.APIResource, preferred bool) {
	index := map[string]int{} // of resources by plural
	for _, r := range list {
		if strings.Contains(r.Name, "/") {
			continue
		}
		index[r.Name] = len(f.all)
		f.all = append(f.all, Discovered{
			Resource: object.Resource{Group: gv.Group, Version: gv.Version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced},
			Singular: strings.ToLower(r.SingularName), ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs,
			Preferred: preferred,
		})
	}
	for _, r := range list {
		if parent, sub, ok := strings.Cut(r.Name, "/"); ok {
			if i, ok := index[parent]; ok {
				f.all[i].Subresources = append(f.all[i].Subresources, sub)
			}
		}
	}
}
