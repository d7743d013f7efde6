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

// Discovered is a resource as a server describes it.
type Discovered struct {
	object.Resource
	// Singular and ShortNames are other names of it.
	Singular   string
	ShortNames []string
	// Categories are the groups of resources that it belongs to, such as "all".
	Categories []string
	// Verbs are what one may do with it.
	Verbs []string
	// Subresources are those parts that have a path of their own.
	Subresources []string
	// Preferred tells whether this is the version of its group that the server
	// prefers.
	Preferred bool
}

// DiscoveryOptions configure a [Discovery]. The zero DiscoveryOptions work.
type DiscoveryOptions struct {
	// MaxAge is how old an answer may be. Defaults to 10 minutes.
	MaxAge time.Duration
	// MinAge is how old an answer must be before the server is asked anew because a
	// resource is not in it: a custom resource may just have been defined. Defaults
	// to 5 s.
	MinAge time.Duration
}

// Discovery asks a server which resources it has, and remembers the answer. All
// methods may be called from any goroutine; one of them asks, the others wait for
// its answer or for the end of their context.
type Discovery struct {
	client *Client
	opts   DiscoveryOptions

	turn chan struct{} // holds one token: whoever has it reads and writes what follows

	all     []Discovered
	skipped error // the groups that did not answer
	at      time.Time
}

// NewDiscovery returns the discovery of a server. It asks nothing yet.
func NewDiscovery(c *Client, opts DiscoveryOptions) *Discovery {
	if opts.MaxAge <= 0 {
		opts.MaxAge = 10 * time.Minute
	}
	if opts.MinAge <= 0 {
		opts.MinAge = 5 * time.Second
	}
	d := &Discovery{client: c, opts: opts, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

// Invalidate forgets the answer, so that the next call asks the server. It waits
// for a call that is asking at the moment.
func (d *Discovery) Invalidate() {
	<-d.turn
	d.at = time.Time{}
	d.turn <- struct{}{}
}

// All returns all resources in all versions, in the server's order of groups, the
// preferred version of each first. Groups whose own server did not answer are left
// out, and are told of by the error together with what there is; it is a
// [*SkippedGroupsError] then.
func (d *Discovery) All(ctx context.Context) ([]Discovered, error) {
	all, skipped, err := d.get(ctx, d.opts.MaxAge)
	if err != nil {
		return nil, err
	}
	return slices.Clone(all), skipped
}

// get returns an answer that is not older than maxAge.
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

// SkippedGroupsError says that some groups of the API could not be asked; the others
// were.
type SkippedGroupsError struct {
	// Groups are errors by "group/version".
	Groups map[string]error
}

// Error names the groups, in order.
func (e *SkippedGroupsError) Error() string {
	names := make([]string, 0, len(e.Groups))
	for name := range e.Groups {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("the resources of some API groups are not known:")
	for i, name := range names {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s: %v", name, e.Groups[name])
	}
	return b.String()
}

// UnknownResourceError says that a server has no resource of that name.
type UnknownResourceError struct {
	// Name is what was asked for.
	Name string
	// Suggestions are names that are close to it, the closest first.
	Suggestions []string
	// Skipped says which groups were not asked; nil when all were.
	Skipped error
}

// Error gives the name and what may have been meant.
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

// Unwrap returns what is known of the groups that were not asked.
func (e *UnknownResourceError) Unwrap() error { return e.Skipped }

// Find returns the resource of a name as people write it: the plural, the singular,
// a short name or the kind, in any case, alone or followed by the group
// ("deployments.apps") or by version and group ("deployments.v1.apps"). Where
// several groups have the name, the core group wins, then the first in the server's
// order; without a version, the preferred one. The error is an
// [*UnknownResourceError] when there is none.
func (d *Discovery) Find(ctx context.Context, name string) (Discovered, error) {
	return d.find(ctx, name, name, func(all []Discovered) (Discovered, bool) { return find(all, name) })
}

// FindKind returns the resource of a kind, in that version.
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

// find looks in what is remembered, and then in what the server says now.
func (d *Discovery) find(ctx context.Context, name, like string, look func([]Discovered) (Discovered, bool)) (Discovered, error) {
	all, _, err := d.get(ctx, d.opts.MaxAge)
	if err != nil {
		return Discovered{}, err
	}
	if found, ok := look(all); ok {
		return found, nil
	}
	all, skipped, err := d.get(ctx, d.opts.MinAge)
	if err != nil {
		return Discovered{}, err
	}
	if found, ok := look(all); ok {
		return found, nil
	}
	return Discovered{}, &UnknownResourceError{Name: name, Suggestions: suggest(all, like), Skipped: skipped}
}

// fetch asks the server: for everything at once, or group by group where the server
// does not know that.
func (d *Discovery) fetch(ctx context.Context) ([]Discovered, error, error) {
	f := fetcher{client: d.client, skipped: map[string]error{}}
	for _, root := range []string{"/api", "/apis"} {
		if err := f.root(ctx, root); err != nil {
			// A server may have no core group, or nothing but it.
			if apierrors.IsNotFound(err) {
				continue
			}
			return nil, nil, fmt.Errorf("discovering the server's resources: %w", err)
		}
	}
	if f.found == 0 && len(f.skipped) == 0 {
		return nil, nil, errors.New("discovering the server's resources: the server has none; check its address")
	}
	if len(f.skipped) > 0 {
		return f.all, &SkippedGroupsError{Groups: f.skipped}, nil
	}
	return f.all, nil, nil
}

// find returns the best resource of a name.
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

// isIn reports whether the qualifier behind a name fits: nothing, the group, or
// version and group; the version alone stands for the core group.
func (r *Discovered) isIn(qualifier string) bool {
	if qualifier == "" || qualifier == r.Group {
		return true
	}
	version, group, _ := strings.Cut(qualifier, ".")
	return version == r.Version && group == r.Group
}

// before reports whether r is a better answer than other for the same name, of which
// other came first in the server's order.
func (r *Discovered) before(other Discovered) bool {
	if r.Group != other.Group {
		return r.Group == "" && other.Group != ""
	}
	return r.Preferred && !other.Preferred
}
