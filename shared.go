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
	shard          *Shard // nil for none
}

// shared is an informer that several [Mirror] values share. It runs while it has claims and
// the cluster runs.
type shared struct {
	id         identity
	name       string
	namespaces []string
	dropped    []string // in order
	transform  transform
	inf        anyInformer
	view       viewed
	log        journaled       // nil without a journal
	ofLeader   bool            // it was declared while this process led: standbys may lack it
	missing    atomic.Bool     // the server does not serve the resource
	nudges     int             // remaining early wake-ups; owned by awaitServed
	wanted     context.Context // done when the last claim is released
	end        context.CancelFunc

	masked  *masks
	history atomic.Pointer[history] // nil for none; written with the cluster's lock held
	size    sizes

	claims []*claim // of the open handles, oldest first; guarded by the cluster's lock
}

// masks are the fields of a resource that the console hides, in all mirrors of it; nil for none.
// They are written with the cluster's lock held.
type masks = atomic.Pointer[[]object.FieldPath]

// masksOf returns the masks of a resource. The caller holds the lock.
func (c *Cluster) masksOf(res object.Resource) *masks {
	of := object.Resource{Group: res.Group, Resource: res.Resource}
	if c.masks[of] == nil {
		c.masks[of] = new(masks)
	}
	return c.masks[of]
}

// claim is the reference of one open Mirror to what it shares.
type claim struct{ site string }

// anyInformer is an *informer.Informer[T] of any T.
type anyInformer interface {
	Name() string
	Run(ctx context.Context) error
	Status() informer.Status
	WaitSynced(ctx context.Context) error
	Synced() <-chan struct{}
	Sources() []informer.SourceStatus
	Shard() object.Shard
	SetShard(object.Shard) error
	WaitForKey(ctx context.Context, key object.Key, version object.Version) error
	Audit(ctx context.Context, list informer.ListFunc) (informer.Audit, error)
	Wake()
}

// attach returns a reference to the mirror that the options select, which it creates if
// there is none. t may be nil.
func attach[P Object](c *Cluster, site string, res wire.Resource[P], t *Transform[P], opts []Option) (*Mirror[P], error) {
	fail := func(err error) (*Mirror[P], error) {
		return nil, fmt.Errorf("tarn: mirror at %s: %w", site, err)
	}
	if err := res.Valid(); err != nil {
		return fail(err)
	}
	d, err := declare(opts)
	switch {
	case err != nil:
		return fail(err)
	case d.namespaces != nil && !res.Namespaced:
		return fail(fmt.Errorf("%s are cluster-scoped; remove InNamespaces", res.Resource))
	}
	if err := c.restrict(d, res.Namespaced); err != nil {
		return fail(err)
	}
	if t != nil {
		d.transform = t
	}
	api := wire.For(c.client, res)
	cl := &claim{site: site}
	m, err := c.claim(d.identityFor(res.Resource, res.Type(), res.Encoding()), d, cl,
		func(m *shared) error { return build(c, m, api, d, t) })
	if err != nil {
		return nil, err
	}
	return newMirror(c, m, cl, m.inf.(*informer.Informer[P]), api), nil
}

func (d *declaration) identityFor(res object.Resource, obj reflect.Type, enc wire.Encoding) identity {
	return identity{
		resource: res, object: obj, encoding: enc, compact: d.compact,
		namespaces: strings.Join(d.namespaces, ","), labels: d.labels, fields: d.fields, shard: d.shard,
	}
}

// claim finds or creates the mirror of an identity and adds a claim to it.
func (c *Cluster) claim(id identity, d *declaration, cl *claim, build func(*shared) error) (*shared, error) {
	dropped := slices.Sorted(maps.Keys(d.dropped))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == stopped || c.phase == running && c.run.Err() != nil {
		return nil, ErrStopped
	}
	if m := c.mirrors[id]; m != nil {
		if err := m.agrees(dropped, d.transform, cl.site); err != nil {
			return nil, err
		}
		if err := m.extend(d); err != nil {
			return nil, err
		}
		m.claims = append(m.claims, cl)
		return m, nil
	}
	m := &shared{
		id: id, name: c.freeName(id.name()), namespaces: d.namespaces, dropped: dropped, transform: d.transform,
		claims: []*claim{cl}, masked: c.masksOf(id.resource), ofLeader: c.elector != nil && c.elector.Status().Leading,
	}
	m.wanted, m.end = context.WithCancel(context.Background())
	if err := build(m); err != nil {
		return nil, fmt.Errorf("tarn: mirror at %s: %w", cl.site, err)
	}
	if err := m.extend(d); err != nil {
		return nil, err
	}
	c.mirrors[id] = m
	c.order = append(c.order, m)
	if c.phase == running {
		c.begin(m)
	}
	return m, nil
}

// freeName returns a name, or the same with a number if another mirror has it: mirrors of one resource
// that differ only in Go type or encoding. The caller holds the lock.
func (c *Cluster) freeName(name string) string {
	free := name
	for i := 2; slices.ContainsFunc(c.order, func(m *shared) bool { return m.name == free }); i++ {
		free = fmt.Sprintf("%s #%d", name, i)
	}
	return free
}

// extend adds what another caller masks, and the history that it wants. The caller holds the
// cluster's lock.
func (m *shared) extend(d *declaration) error {
	if len(d.masked) > 0 {
		all := slices.Concat(m.view.Masked(), d.masked)
		slices.SortFunc(all, slices.Compare[object.FieldPath])
		m.masked.Store(new(slices.CompactFunc(all, slices.Equal[object.FieldPath])))
	}
	if d.history == 0 {
		return nil
	}
	if h := m.history.Load(); h != nil {
		h.extend(d.history)
		return nil
	}
	h := newHistory(d.history)
	m.history.Store(h)
	return m.view.follow(h)
}

// agrees returns a *ConflictError if another caller requests different contents.
func (m *shared) agrees(dropped []string, t transform, site string) error {
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
	if id.shard != nil {
		b.WriteString(" of a shard")
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
func build[P Object](c *Cluster, m *shared, api *wire.API[P], d *declaration, t *Transform[P]) error {
	source, err := stream.NewSource(api, object.Selection{}, stream.Options{
		Drop: slices.Collect(maps.Values(d.dropped)),
		// Transformed objects share nothing, so the tables would be unused. The mutation check decodes
		// a compact object again, to memory that no reader can have written to.
		DisableSharing: t != nil || d.compact && c.opts.onMutation != nil,
		Whole:          reflect.TypeFor[P]().Kind() == reflect.Interface, // for Mirror.DecoderFor
	})
	if err != nil {
		return err
	}
	opts := informer.Options[P]{
		Name:       m.name,
		Resource:   m.id.resource,
		Selection:  object.Selection{Labels: d.labels, Fields: d.fields},
		Namespaces: d.namespaces,
		OnMutation: c.opts.onMutation,
		Logger:     c.opts.logger,
		Reflector: reflector.Options[P]{
			Streaming: c.opts.tuning.Streaming, Backoff: c.opts.tuning.Backoff, RemovedAfter: c.opts.tuning.RemovedAfter, Budget: c.budget,
			Latest: d.latest,
		},
	}
	if failed := c.opts.watchErrors; failed != nil {
		opts.Reflector.OnError = func(err error) { failed(m.name, err) }
	}
	if t != nil {
		opts.Transform = t.apply
	}
	decoder := source
	if t != nil && (d.compact || c.journal != nil) { // what it put into a dropped field is not dropped
		if decoder, err = stream.NewSource(api, object.Selection{}, stream.Options{DisableSharing: true}); err != nil {
			return err
		}
	}
	encode, decode := encodingOf(decoder, api.Resource())
	if d.compact {
		opts.Form = store.Packed(encode, decode)
	}
	var inf *informer.Informer[P]
	var src reflector.Source[P] = served[P]{source: source, mirror: m, noticed: c.noticed}
	if c.journal != nil {
		log := newMirrorLog(c, m, api, d, src, encode, decode)
		log.edit = func(f func(*store.Store[P])) { inf.Edit(f) }
		src, opts.Applied, m.log = log.Source, log.Applied, log
	}
	if inf, err = informer.New(src, object.Meta[P](), opts); err != nil {
		return err
	}
	if d.shard != nil {
		d.shard.follow(inf)
	}
	m.inf, m.view = inf, mirrorView[P]{m, inf}
	return nil
}
