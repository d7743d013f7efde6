package tarn

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// identity decides which declarations share a mirror: resource, form and scope. Dropped
// fields and transforms are not part of it, so that callers that differ in them get a
// ConflictError.
type identity struct {
	resource       object.Resource
	object         reflect.Type
	encoding       wire.Encoding
	compact        bool
	namespaces     string // joined by commas, which names cannot contain; "" for all
	labels, fields string
}

// mirror is an informer that several handles share. It runs while it has claims and the
// cluster runs.
type mirror struct {
	id         identity
	name       string
	namespaces []string
	dropped    []string // in order
	transform  transform
	inf        anyInformer
	missing    atomic.Bool     // the server does not serve the resource
	nudges     int             // remaining early wake-ups; owned by awaitServed
	wanted     context.Context // done when the last claim is released
	end        context.CancelFunc

	claims []*claim // of the open handles, oldest first; guarded by the cluster's lock
}

// claim is one open handle's reference to a mirror.
type claim struct{ site string }

// anyInformer is an *informer.Informer[T] of any T.
type anyInformer interface {
	Run(ctx context.Context) error
	Status() informer.Status
	WaitSynced(ctx context.Context) error
	Wake()
}

// attach returns a handle on the mirror that the options select.
func attach[P Pointer[X], X any](c *Cluster, site string, res wire.Resource[*X], opts []Option) (*Handle[*X], error) {
	fail := func(err error) (*Handle[*X], error) {
		return nil, fmt.Errorf("tarn: informer at %s: %w", site, err)
	}
	if err := res.Valid(); err != nil {
		return fail(err)
	}
	d, err := declare(opts)
	if err != nil {
		return fail(err)
	}
	indexes, err := check[*X](res, d)
	if err != nil {
		return fail(err)
	}
	api := wire.For(c.client, res)
	cl := &claim{site: site}
	m, isNew, err := c.claim(d.identityFor(res.Resource, reflect.TypeFor[*X](), res.Encoding()), d, cl,
		func(m *mirror) error { return build[P](c, m, api, d, indexes) })
	if err != nil {
		return nil, err
	}
	inf := m.inf.(*informer.Informer[*X])
	if !isNew {
		for _, x := range indexes { // without the cluster's lock: it reads every object
			inf.AddIndex(x)
		}
	}
	return newHandle(c, m, cl, inf, api), nil
}

// check returns the indexes of a declaration, or an error if a part of it is of another type.
func check[T any](res wire.Resource[T], d *declaration) ([]store.AnyIndex[T], error) {
	if d.namespaces != nil && !res.Namespaced {
		return nil, fmt.Errorf("%s are cluster-scoped; remove InNamespaces", res.Resource)
	}
	want := reflect.TypeFor[T]()
	if d.transform != nil && d.transform.of() != want {
		return nil, fmt.Errorf("transform %s is for %v, but the informer is for %v", d.transform.text(), d.transform.of(), want)
	}
	var indexes []store.AnyIndex[T]
	for _, x := range d.indexes {
		typed, ok := x.value.(store.AnyIndex[T])
		if !ok {
			return nil, fmt.Errorf("index %q is for %v, but the informer is for %v", x.name, x.of, want)
		}
		if !slices.Contains(indexes, typed) {
			indexes = append(indexes, typed)
		}
	}
	return indexes, nil
}

func (d *declaration) identityFor(res object.Resource, obj reflect.Type, enc wire.Encoding) identity {
	return identity{
		resource: res, object: obj, encoding: enc, compact: d.compact,
		namespaces: strings.Join(d.namespaces, ","), labels: d.labels, fields: d.fields,
	}
}

// claim finds or creates the mirror of an identity and adds a claim to it.
func (c *Cluster) claim(id identity, d *declaration, cl *claim, build func(*mirror) error) (m *mirror, isNew bool, err error) {
	dropped := slices.Sorted(maps.Keys(d.dropped))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == stopped || c.phase == running && c.run.Err() != nil {
		return nil, false, ErrStopped
	}
	if m := c.mirrors[id]; m != nil {
		if err := m.agrees(dropped, d.transform, cl.site); err != nil {
			return nil, false, err
		}
		m.claims = append(m.claims, cl)
		return m, false, nil
	}
	m = &mirror{
		id: id, name: id.name(), namespaces: d.namespaces, dropped: dropped, transform: d.transform,
		claims: []*claim{cl},
	}
	m.wanted, m.end = context.WithCancel(context.Background())
	if err := build(m); err != nil {
		return nil, false, fmt.Errorf("tarn: informer at %s: %w", cl.site, err)
	}
	c.mirrors[id] = m
	c.order = append(c.order, m)
	if c.phase == running {
		c.begin(m)
	}
	return m, true, nil
}

// agrees returns a *ConflictError if another caller requests different contents.
func (m *mirror) agrees(dropped []string, t transform, site string) error {
	e := &ConflictError{Mirror: m.name, Here: site, There: m.claims[0].site}
	switch {
	case !slices.Equal(m.dropped, dropped):
		e.What, e.Wants, e.Has = "dropped fields", orNone(strings.Join(dropped, ", ")), orNone(strings.Join(m.dropped, ", "))
	case m.transform != t:
		e.What, e.Wants, e.Has = "transform", textOf(t), textOf(m.transform)
	default:
		return nil
	}
	return e
}

func textOf(t transform) string {
	if t == nil {
		return "none"
	}
	return t.text()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// name returns a readable name: "pods", "pods in shop where app=web".
func (id identity) name() string {
	var b strings.Builder
	b.WriteString(id.resource.String())
	if id.namespaces != "" {
		b.WriteString(" in " + id.namespaces)
	}
	if where := join(id.labels, id.fields); where != "" {
		b.WriteString(" where " + where)
	}
	switch form := formOf(id.object); {
	case form != Typed && id.compact:
		fmt.Fprintf(&b, " (%s, compact)", form)
	case form != Typed:
		fmt.Fprintf(&b, " (%s)", form)
	case id.compact:
		b.WriteString(" (compact)")
	}
	return b.String()
}

// build creates the informer of a mirror.
func build[P Pointer[X], X any](c *Cluster, m *mirror, api *wire.API[*X], d *declaration, indexes []store.AnyIndex[*X]) error {
	source, err := stream.NewSource(api, object.Selection{}, stream.Options{
		Drop:           slices.Collect(maps.Values(d.dropped)),
		DisableSharing: d.transform != nil, // transformed objects share nothing, so the tables would be unused
	})
	if err != nil {
		return err
	}
	opts := informer.Options[*X]{
		Name:       m.name,
		Selection:  object.Selection{Labels: d.labels, Fields: d.fields},
		Namespaces: d.namespaces,
		Indexes:    indexes,
		OnMutation: c.opts.OnMutation,
		Logger:     c.opts.Logger,
		Reflector: reflector.Options[*X]{
			Streaming: c.opts.Streaming, Backoff: c.opts.Backoff, GoneAfter: c.opts.GoneAfter, Budget: c.budget,
		},
	}
	if t, ok := d.transform.(*Transform[*X]); ok {
		opts.Transform = t.apply
	}
	if d.compact {
		opts.Form = compactForm(api.Resource())
	}
	inf, err := informer.New(served[*X]{source: source, mirror: m, noticed: c.noticed}, accessor[P](), opts)
	if err != nil {
		return err
	}
	m.inf = inf
	return nil
}

// accessor is object.Meta for *X, whose methods the compiler knows only through P.
func accessor[P Pointer[X], X any]() object.Accessor[*X] {
	meta := object.Meta[P]()
	return object.Accessor[*X]{
		Key:     func(o *X) (object.Key, error) { return meta.Key(P(o)) },
		UID:     func(o *X) object.UID { return meta.UID(P(o)) },
		Version: func(o *X) object.Version { return meta.Version(P(o)) },
		Labels:  func(o *X) map[string]string { return meta.Labels(P(o)) },
	}
}
