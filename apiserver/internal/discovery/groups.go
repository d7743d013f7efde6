package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ServeGroups serves legacy and aggregated discovery. It returns false if the path is
// not a discovery path.
func (s *Discovery) ServeGroups(w http.ResponseWriter, req *http.Request, path string) bool {
	parts := strings.Split(path, "/")
	core := parts[0] == "api"
	if len(parts) > 3 || core && len(parts) > 2 {
		return false
	}
	aggregated := func(r codec.Representation) bool {
		return r.As == "APIGroupDiscoveryList" && r.In.Group == apidiscoveryv2.GroupName && r.Encoding == kinds.JSON && r.In.Version == "v2"
	}
	rep, err := codec.Negotiate(req, func(r codec.Representation) bool { return r.As == "" || len(parts) == 1 && aggregated(r) })
	if err != nil {
		s.out.Error(w, req, err)
		return true
	}
	switch {
	case len(parts) == 1 && rep.As != "":
		s.serveAggregated(w, req, rep, core)
	case core && len(parts) == 1:
		s.out.Object(w, req, rep, http.StatusOK, &metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: req.Host}},
		})
	case core:
		s.serveResources(w, req, rep, schema.GroupVersion{Version: parts[1]})
	case len(parts) == 1:
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{}}
		for _, g := range s.groups() {
			if g.Name != "" {
				list.Groups = append(list.Groups, g)
			}
		}
		s.out.Object(w, req, rep, http.StatusOK, list)
	case len(parts) == 2:
		for _, g := range s.groups() {
			if g.Name == parts[1] {
				g.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
				s.out.Object(w, req, rep, http.StatusOK, &g)
				return true
			}
		}
		s.out.PageNotFound(w, req)
	default:
		s.serveResources(w, req, rep, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return true
}

// groupOrder lists the built-in groups in the order in which kube-apiserver prefers them.
// Those of custom resources follow in the order of their names.
var groupOrder = strings.Fields(`
	apps events.k8s.io authentication.k8s.io authorization.k8s.io autoscaling batch certificates.k8s.io networking.k8s.io policy
	rbac.authorization.k8s.io storage.k8s.io admissionregistration.k8s.io apiextensions.k8s.io scheduling.k8s.io
	coordination.k8s.io node.k8s.io discovery.k8s.io resource.k8s.io flowcontrol.apiserver.k8s.io`)

// discovered returns the kinds in the order of discovery.
func (s *Discovery) discovered() []*kinds.Kind {
	rank := func(k *kinds.Kind) int {
		if i := slices.Index(groupOrder, k.Group); i >= 0 {
			return i
		}
		return len(groupOrder)
	}
	all := s.catalog.All()
	slices.SortStableFunc(all, func(a, b *kinds.Kind) int { return rank(a) - rank(b) })
	return all
}

// groups returns the API groups with their versions, the preferred one first.
func (s *Discovery) groups() (groups []metav1.APIGroup) {
	for _, k := range s.discovered() {
		gv := k.GVK().GroupVersion()
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		n := len(groups)
		if n == 0 || groups[n-1].Name != k.Group {
			groups = append(groups, metav1.APIGroup{Name: k.Group, PreferredVersion: v})
			n++
		}
		if g := &groups[n-1]; !slices.Contains(g.Versions, v) {
			g.Versions = append(g.Versions, v)
		}
	}
	return groups
}

// subresourcesOf returns the kind of each subresource by name.
func subresourcesOf(k *kinds.Kind) map[string]schema.GroupVersionKind {
	subs := map[string]schema.GroupVersionKind{}
	if k.Status {
		subs["status"] = k.GVK()
	}
	if k.Scale != nil {
		subs["scale"] = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	}
	for name := range kinds.ObjectSubresources[k.String()] {
		subs[name] = k.GVK()
	}
	core := func(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }
	switch k.String() {
	case "pods":
		subs["eviction"] = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
		subs["binding"] = core("Binding")
		// Those of the kubelet are listed, but not served.
		subs["log"] = k.GVK()
		subs["exec"], subs["attach"], subs["portforward"] = core("PodExecOptions"), core("PodAttachOptions"), core("PodPortForwardOptions")
		subs["proxy"] = core("PodProxyOptions")
	case "services":
		subs["proxy"] = core("ServiceProxyOptions")
	case "nodes":
		subs["proxy"] = core("NodeProxyOptions")
	case "serviceaccounts":
		subs["token"] = schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}
	}
	return subs
}

func verbsOfSubresource(name string) metav1.Verbs {
	switch name {
	case "eviction", "binding", "token":
		return metav1.Verbs{"create"}
	case "finalize":
		return metav1.Verbs{"update"}
	case "log":
		return metav1.Verbs{"get"}
	case "exec", "attach", "portforward":
		return metav1.Verbs{"create", "get"}
	case "proxy":
		return metav1.Verbs{"create", "delete", "get", "patch", "update"}
	}
	return metav1.Verbs{"get", "patch", "update"}
}

func (s *Discovery) serveResources(w http.ResponseWriter, req *http.Request, rep codec.Representation, gv schema.GroupVersion) {
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	for _, k := range s.catalog.All() {
		if k.GVK().GroupVersion() != gv {
			continue
		}
		resource := metav1.APIResource{
			Name: k.Resource.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind, Verbs: k.Verbs(),
			ShortNames: k.ShortNames, Categories: k.Categories,
		}
		if slices.Contains(resource.Verbs, "update") { // it is stored
			sum := sha256.Sum256([]byte(k.GVK().String()))
			resource.StorageVersionHash = hex.EncodeToString(sum[:6])
		}
		list.APIResources = append(list.APIResources, resource)
		subs := subresourcesOf(k)
		for _, name := range inOrder(k, subs) {
			sub := subs[name]
			r := metav1.APIResource{Name: k.Resource.Resource + "/" + name, Namespaced: k.Namespaced, Kind: sub.Kind, Verbs: verbsOfSubresource(name)}
			if sub.GroupVersion() != gv {
				r.Group, r.Version = sub.Group, sub.Version
			}
			list.APIResources = append(list.APIResources, r)
		}
	}
	if gv.Group == "" {
		list.APIVersion = "" // v1 predates API groups and has none, as on the real server
	}
	if len(list.APIResources) == 0 {
		s.out.Error(w, req, apierror.NotServed())
		return
	}
	s.out.Object(w, req, rep, http.StatusOK, list)
}

// inOrder sorts subresource names in the order of the real server, which is reversed for
// custom resources.
func inOrder(k *kinds.Kind, subs map[string]schema.GroupVersionKind) []string {
	names := slices.Sorted(maps.Keys(subs))
	if !k.Typed {
		slices.Reverse(names)
	}
	return names
}

// serveAggregated serves aggregated discovery of /api or /apis.
func (s *Discovery) serveAggregated(w http.ResponseWriter, req *http.Request, rep codec.Representation, core bool) {
	list := s.aggregated(core)
	raw, err := s.codecs.Encode(codec.Representation{}, list)
	if err != nil {
		s.out.Error(w, req, err)
		return
	}
	sum := sha256.Sum256(raw)
	w.Header().Set("ETag", `"`+strings.ToUpper(hex.EncodeToString(sum[:]))+`"`)
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public")
	contentType := fmt.Sprintf("application/json;g=%s;v=%s;as=%s", rep.In.Group, rep.In.Version, rep.As)
	s.out.Raw(w, req, contentType, http.StatusOK, raw)
}

func (s *Discovery) aggregated(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{APIVersion: apidiscoveryv2.SchemeGroupVersion.String(), Kind: "APIGroupDiscoveryList"},
		Items:    []apidiscoveryv2.APIGroupDiscovery{},
	}
	for _, k := range s.discovered() {
		if (k.Group == "") != core {
			continue
		}
		if n := len(list.Items); n == 0 || list.Items[n-1].Name != k.Group {
			list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: k.Group}})
		}
		g := &list.Items[len(list.Items)-1]
		if n := len(g.Versions); n == 0 || g.Versions[n-1].Version != k.Version {
			g.Versions = append(g.Versions, apidiscoveryv2.APIVersionDiscovery{Version: k.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent})
		}
		v := &g.Versions[len(g.Versions)-1]
		v.Resources = append(v.Resources, discoveryOf(k))
	}
	return list
}

func discoveryOf(k *kinds.Kind) apidiscoveryv2.APIResourceDiscovery {
	d := apidiscoveryv2.APIResourceDiscovery{
		Resource: k.Resource.Resource, ResponseKind: responseKindOf(k, k.GVK()), Scope: apidiscoveryv2.ScopeCluster, SingularResource: k.Singular,
		Verbs: k.Verbs(), ShortNames: k.ShortNames, Categories: k.Categories,
	}
	if k.Namespaced {
		d.Scope = apidiscoveryv2.ScopeNamespace
	}
	subs := subresourcesOf(k)
	for _, name := range inOrder(k, subs) {
		d.Subresources = append(d.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: name, ResponseKind: responseKindOf(k, subs[name]), Verbs: verbsOfSubresource(name)})
	}
	return d
}

// responseKindOf returns the kind of a response for aggregated discovery. Built-in kinds have
// group and version only if they are not those of the resource.
func responseKindOf(k *kinds.Kind, of schema.GroupVersionKind) *metav1.GroupVersionKind {
	gvk := metav1.GroupVersionKind(of)
	if k.Typed && of.GroupVersion() == k.GVK().GroupVersion() {
		gvk.Group, gvk.Version = "", ""
	}
	return &gvk
}
