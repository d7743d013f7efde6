package controllerruntime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// settings are cache.Options with all defaults filled in, by kind.
type settings struct {
	byKind  map[schema.GroupVersionKind]kindSettings
	others  kindSettings
	options map[schema.GroupVersionKind]Kind
	rest    Kind
}

// kindSettings are the settings of a kind. namespaces has those of single namespaces, and of
// cache.AllNamespaces for all others; it is empty for one mirror of everything, which then has whole.
type kindSettings struct {
	whole      scopeSettings
	namespaces map[string]scopeSettings
}

// scopeSettings are comparable: namespaces with equal ones share a mirror.
type scopeSettings struct {
	labels, fields string
	// only is the namespace to which fields restrict; empty for none.
	only      string
	transform *transform // nil for none
	noCopy    bool
	resync    time.Duration
}

// transform is a function of cache.Options. Pointers make it comparable.
type transform struct{ apply toolscache.TransformFunc }

// partial is a cache.Config whose transform can be compared.
type partial struct {
	cache.Config
	transform *transform
}

func partialOf(c cache.Config) partial {
	p := partial{Config: c}
	if c.Transform != nil {
		p.transform = &transform{c.Transform}
	}
	return p
}

// or fills in what is not set from further settings, the first of which wins.
func (p partial) or(further ...partial) partial {
	for _, f := range further {
		if p.LabelSelector == nil {
			p.LabelSelector = f.LabelSelector
		}
		if p.FieldSelector == nil {
			p.FieldSelector = f.FieldSelector
		}
		if p.transform == nil {
			p.transform = f.transform
		}
		p.UnsafeDisableDeepCopy = cmp.Or(p.UnsafeDisableDeepCopy, f.UnsafeDisableDeepCopy)
		p.SyncPeriod = cmp.Or(p.SyncPeriod, f.SyncPeriod)
	}
	return p
}

// defaultSyncPeriod is that of controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

func (p partial) settings() scopeSettings {
	s := scopeSettings{transform: p.transform, resync: defaultSyncPeriod}
	if p.LabelSelector != nil {
		s.labels = p.LabelSelector.String()
	}
	if p.FieldSelector != nil {
		s.fields = p.FieldSelector.String()
		s.only, _ = p.FieldSelector.RequiresExactMatch("metadata.namespace")
	}
	if p.UnsafeDisableDeepCopy != nil {
		s.noCopy = *p.UnsafeDisableDeepCopy
	}
	if p.SyncPeriod != nil {
		s.resync = *p.SyncPeriod
	}
	return s
}

// newSettings fills in the defaults in the order that cache.Options documents: the namespace of the
// object, the object, the default namespace, the defaults.
func newSettings(options Options, opts cache.Options) (*settings, error) {
	defaults := partialOf(cache.Config{
		LabelSelector: opts.DefaultLabelSelector, FieldSelector: opts.DefaultFieldSelector, Transform: opts.DefaultTransform,
		UnsafeDisableDeepCopy: opts.DefaultUnsafeDisableDeepCopy, SyncPeriod: opts.SyncPeriod,
	})
	inNamespace := map[string]partial{}
	for ns, config := range opts.DefaultNamespaces {
		inNamespace[ns] = partialOf(config)
	}
	s := &settings{
		byKind:  map[schema.GroupVersionKind]kindSettings{},
		others:  kindSettings{whole: defaults.settings(), namespaces: scopes(inNamespace, defaults)},
		options: map[schema.GroupVersionKind]Kind{},
		rest:    options.Default,
	}
	for obj, by := range opts.ByObject {
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			return nil, fmt.Errorf("failed to get GVK for type %T: %w", obj, err)
		}
		namespaced, err := apiutil.IsGVKNamespaced(gvk, opts.Mapper)
		switch {
		case err != nil:
			return nil, fmt.Errorf("failed to determine if %T is namespaced: %w", obj, err)
		case !namespaced && by.Namespaces != nil:
			return nil, fmt.Errorf("type %T is not namespaced, but its ByObject.Namespaces setting is not nil", obj)
		}
		own := partialOf(cache.Config{
			LabelSelector: by.Label, FieldSelector: by.Field, Transform: by.Transform,
			UnsafeDisableDeepCopy: by.UnsafeDisableDeepCopy, SyncPeriod: by.SyncPeriod,
		})
		named := map[string]partial{}
		if namespaced && by.Namespaces == nil {
			for ns := range inNamespace {
				named[ns] = inNamespace[ns].or(own)
			}
		}
		for ns, config := range by.Namespaces {
			named[ns] = partialOf(config).or(own, inNamespace[ns])
		}
		s.byKind[gvk] = kindSettings{whole: own.or(defaults).settings(), namespaces: scopes(named, defaults)}
	}
	for obj, kind := range options.ByObject {
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			return nil, fmt.Errorf("controllerruntime: Options.ByObject: %w", err)
		}
		s.options[gvk] = kind
	}
	return s, nil
}

// scopes fills in the defaults of namespaces. cache.AllNamespaces excludes those that are named.
func scopes(named map[string]partial, defaults partial) map[string]scopeSettings {
	all := map[string]scopeSettings{}
	for ns, p := range named {
		p = p.or(defaults)
		if ns == cache.AllNamespaces {
			var but []fields.Selector
			for _, other := range slices.Sorted(maps.Keys(named)) {
				if other != cache.AllNamespaces {
					but = append(but, fields.OneTermNotEqualSelector("metadata.namespace", other))
				}
			}
			if p.FieldSelector != nil {
				but = append(but, p.FieldSelector)
			}
			p.FieldSelector = fields.AndSelectors(but...)
		}
		all[ns] = p.settings()
	}
	return all
}

// scope is what one mirror of a kind covers.
type scope struct {
	namespaces []string // nil for all
	scopeSettings
}

// key identifies the scope among those of a kind.
func (s scope) key() scopeKey { return scopeKey{strings.Join(s.namespaces, ","), s.scopeSettings} }

type scopeKey struct {
	namespaces string
	scopeSettings
}

// of returns the scopes of the mirrors of a kind. restricted means that other namespaces are an error.
func (s *settings) of(gvk schema.GroupVersionKind, namespaced bool) (scopes []scope, restricted bool) {
	k, ok := s.byKind[gvk]
	if !ok {
		k = s.others
	}
	if !namespaced || len(k.namespaces) == 0 {
		return []scope{wholeScope(k.whole, namespaced)}, false
	}
	equal := map[scopeSettings][]string{}
	for _, ns := range slices.Sorted(maps.Keys(k.namespaces)) {
		if ns != cache.AllNamespaces {
			equal[k.namespaces[ns]] = append(equal[k.namespaces[ns]], ns)
		}
	}
	for of, namespaces := range equal {
		scopes = append(scopes, scope{namespaces, of})
	}
	slices.SortFunc(scopes, func(a, b scope) int { return slices.Compare(a.namespaces, b.namespaces) })
	all, ok := k.namespaces[cache.AllNamespaces]
	if ok {
		scopes = append(scopes, wholeScope(all, true))
	}
	return scopes, !ok
}

// wholeScope is that of all namespaces, or of the one that the field selector names.
func wholeScope(of scopeSettings, namespaced bool) scope {
	if namespaced && of.only != "" {
		return scope{[]string{of.only}, of}
	}
	return scope{nil, of}
}

// kind returns how the objects of a kind are held.
func (s *settings) kind(gvk schema.GroupVersionKind) Kind {
	if k, ok := s.options[gvk]; ok {
		return k
	}
	return s.rest
}
