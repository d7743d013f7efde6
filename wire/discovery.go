package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/object"
)

// Discovered is a resource as the server describes it.
type Discovered struct {
	object.Resource
	// Singular and ShortNames are other names of it.
	Singular   string
	ShortNames []string
	// Categories are the categories that it belongs to, such as "all".
	Categories []string
	// Verbs are the verbs that the server supports for it.
	Verbs []string
	// Subresources are the names of its subresources.
	Subresources []string
	// Preferred reports whether this is the server's preferred version of the group.
	Preferred bool
}

const (
	// discoveryMaxAge is the age after which the cached resources are fetched again.
	discoveryMaxAge = 10 * time.Minute
	// discoveryMinAge is the age after which they are fetched again to find a resource that
	// is missing in them: its CustomResourceDefinition may be new.
	discoveryMinAge = 5 * time.Second
)

// Discovery fetches the resources of a server and caches them for ten minutes. All methods are
// safe for concurrent use. Concurrent calls share one fetch.
type Discovery struct {
	client *Client

	turn chan struct{} // has one token; its owner may use the fields below

	all     []Discovered
	skipped error // the groups that could not be fetched
	at      time.Time
}

// NewDiscovery returns the discovery of a server. It sends no request.
func NewDiscovery(c *Client) *Discovery {
	d := &Discovery{client: c, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

// Invalidate drops the cached resources. It blocks while another call fetches them.
func (d *Discovery) Invalidate() {
	<-d.turn
	d.at = time.Time{}
	d.turn <- struct{}{}
}

// All returns all resources in all versions, in the server's order of groups, the preferred
// version of each group first. If groups of aggregated API servers could not be fetched, it
// returns the other resources and a [*SkippedGroupsError].
func (d *Discovery) All(ctx context.Context) ([]Discovered, error) {
	all, skipped, err := d.get(ctx, discoveryMaxAge)
	if err != nil {
		return nil, err
	}
	return slices.Clone(all), skipped
}

// get returns resources that were fetched within maxAge.
func (d *Discovery) get(ctx context.Context, maxAge time.Duration) (all []Discovered, skipped, err error) {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if d.at.IsZero() || time.Since(d.at) >= maxAge {
		all, skipped, err := d.fetch(ctx)
		if err != nil {
			return nil, nil, err
		}
		d.all, d.skipped, d.at = all, skipped, time.Now()
	}
	return d.all, d.skipped, nil
}

// SkippedGroupsError means that the resources of some API groups could not be fetched.
type SkippedGroupsError struct {
	// Groups has the errors by "group/version".
	Groups map[string]error
}

// Error lists the groups in order.
func (e *SkippedGroupsError) Error() string {
	names := make([]string, 0, len(e.Groups))
	for name := range e.Groups {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("cannot discover the resources of some API groups:")
	for i, name := range names {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s: %v", name, e.Groups[name])
	}
	return b.String()
}

// UnknownResourceError means that the server has no resource of that name.
type UnknownResourceError struct {
	// Name is the requested name.
	Name string
	// Suggestions are similar names, the closest first.
	Suggestions []string
	// Skipped is a [*SkippedGroupsError] if groups could not be searched, else nil.
	Skipped error
}

// Error returns the name and the suggestions.
func (e *UnknownResourceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no resource %q", e.Name)
	if n := len(e.Suggestions); n > 0 {
		b.WriteString("; did you mean ")
		b.WriteString(strings.Join(e.Suggestions[:max(n-1, 1)], ", "))
		if n > 1 {
			b.WriteString(" or " + e.Suggestions[n-1])
		}
		b.WriteByte('?')
	}
	if e.Skipped != nil {
		fmt.Fprintf(&b, " (%v)", e.Skipped)
	}
	return b.String()
}

// Unwrap returns Skipped.
func (e *UnknownResourceError) Unwrap() error { return e.Skipped }

// Find returns a resource by name, as kubectl accepts it: plural, singular, short name or kind,
// in any case, alone or followed by the group ("deployments.apps") or by version and group
// ("deployments.v1.apps"). If several groups match, the core group wins, then the first in the
// server's order. Without a version, the preferred one wins. The error is an
// [*UnknownResourceError] if there is none.
func (d *Discovery) Find(ctx context.Context, name string) (Discovered, error) {
	return d.find(ctx, name, name, func(all []Discovered) (Discovered, bool) { return find(all, name) })
}

// FindKind returns the resource of an apiVersion and kind.
func (d *Discovery) FindKind(ctx context.Context, apiVersion, kind string) (Discovered, error) {
	return d.find(ctx, kind+" of "+apiVersion, kind, func(all []Discovered) (Discovered, bool) {
		for _, r := range all {
			if r.Kind == kind && r.GVK().GroupVersion().String() == apiVersion {
				return r, true
			}
		}
		return Discovered{}, false
	})
}

// find searches the cached resources and, if there is no match, fetches them again.
func (d *Discovery) find(ctx context.Context, name, like string, look func([]Discovered) (Discovered, bool)) (Discovered, error) {
	all, _, err := d.get(ctx, discoveryMaxAge)
	if err != nil {
		return Discovered{}, err
	}
	if found, ok := look(all); ok {
		return found, nil
	}
	all, skipped, err := d.get(ctx, discoveryMinAge)
	if err != nil {
		return Discovered{}, err
	}
	if found, ok := look(all); ok {
		return found, nil
	}
	return Discovered{}, &UnknownResourceError{Name: name, Suggestions: suggest(all, like), Skipped: skipped}
}

// fetch requests the resources.
func (d *Discovery) fetch(ctx context.Context) ([]Discovered, error, error) {
	f := fetcher{client: d.client, skipped: map[string]error{}}
	for _, root := range []string{"/api", "/apis"} {
		if err := f.root(ctx, root); err != nil {
			// A server may have only the core group, or not have it.
			if apierrors.IsNotFound(err) {
				continue
			}
			return nil, nil, fmt.Errorf("discover resources: %w", err)
		}
	}
	if f.found == 0 && len(f.skipped) == 0 {
		return nil, nil, errors.New("discover resources: the server has none; check its address")
	}
	if len(f.skipped) > 0 {
		return f.all, &SkippedGroupsError{Groups: f.skipped}, nil
	}
	return f.all, nil, nil
}

// find returns the best match for a name.
func find(all []Discovered, name string) (best Discovered, ok bool) {
	word, rest, _ := strings.Cut(strings.ToLower(name), ".")
	for _, r := range all {
		if !r.isCalled(word) || !r.isIn(rest) {
			continue
		}
		if !ok || r.before(best) {
			best, ok = r, true
		}
	}
	return best, ok
}

// isCalled reports whether a lower-case word is one of the resource's names.
func (r *Discovered) isCalled(word string) bool {
	return word != "" && (word == r.Resource.Resource || word == r.Singular || word == strings.ToLower(r.Kind) || slices.Contains(r.ShortNames, word))
}

// isIn reports whether the qualifier after a name matches: nothing, the group, version and group,
// or only a version of the core group.
func (r *Discovered) isIn(qualifier string) bool {
	if qualifier == "" || qualifier == r.Group {
		return true
	}
	version, group, _ := strings.Cut(qualifier, ".")
	return version == r.Version && group == r.Group
}

// before reports whether r is a better match than other, which precedes it in the server's
// order.
func (r *Discovered) before(other Discovered) bool {
	if r.Group != other.Group {
		return r.Group == "" && other.Group != ""
	}
	return r.Preferred && !other.Preferred
}
