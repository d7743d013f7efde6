package controllerruntime

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// view is a kind as one Go type. It implements cache.Informer.
type view struct {
	cache      *mirrorCache
	key        viewKey
	namespaced bool
	restricted bool // namespaces outside of parts are an error
	parts      []*part
	closed     atomic.Bool
	checked    sync.Once
	synced     chan struct{} // closed when all parts are, or have stopped; made by checked

	mu      sync.RWMutex // guards indexes
	indexes map[string]*index
}

// part is a view's share in a mirror.
type part struct {
	scope
	base   *base
	mirror *tarn.Mirror[tarn.Object]
	inf    *informer.Informer[tarn.Object]
	// The readings of a compact mirror; nil for one that holds objects decoded. shared is also nil if it is
	// that of the mirror.
	shared, owned, kept *store.Reading[tarn.Object]
	unread              atomic.Pointer[error] // the last object that could not be read as this type
}

// base is a mirror that the parts of several views share. The cache's making guards it.
type base struct {
	key     baseKey
	compact bool
	example tarn.Object
	res     wire.Resource[tarn.Object]
	opts    []tarn.Option
	change  *tarn.Transform[tarn.Object] // nil for none
	users   int

	once   sync.Once
	labels *store.LabelIndex[tarn.Object] // made by once
}

// baseKey identifies a base.
type baseKey struct {
	viewKey
	scopeKey
}

// serves reports whether objects of the base can be read as a representation.
func (b *base) serves(as representation) bool {
	switch {
	case b.key.as == as:
		return true
	case !b.compact || b.change != nil || b.key.as == partialMetadata:
		return false
	}
	return as == partialMetadata || b.res.Encoding() == wire.JSON
}

// newView makes a view and its parts. c.making is held.
func (c *mirrorCache) newView(key viewKey) (*view, error) {
	example, err := c.example(key)
	if err != nil {
		return nil, err
	}
	mapping, err := c.mapping(key.gvk)
	if err != nil {
		return nil, err
	}
	v := &view{
		cache: c, key: key, indexes: map[string]*index{},
	}
	resource := resourceOf(mapping)
	v.namespaced = resource.Namespaced
	var scopes []scope
	scopes, v.restricted = c.settings.of(key.gvk, v.namespaced)
	for _, s := range scopes {
		p, err := c.newPart(key, s, wire.Like(resource, example), example)
		if err != nil {
			v.close()
			return nil, err
		}
		v.parts = append(v.parts, p)
	}
	return v, nil
}

func resourceOf(mapping *meta.RESTMapping) object.Resource {
	return object.Resource{
		Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource,
		Kind: mapping.GroupVersionKind.Kind, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}
}

// newPart returns a part on a mirror that serves it, which it makes if there is none.
func (c *mirrorCache) newPart(key viewKey, s scope, res wire.Resource[tarn.Object], example tarn.Object) (*part, error) {
	b := c.baseFor(key, s)
	if b == nil {
		var err error
		if b, err = c.newBase(key, s, res, example); err != nil {
			return nil, err
		}
	}
	mirror, err := tarn.MirrorTransformed(c.cluster, b.res, b.change, b.opts...)
	if err != nil {
		return nil, err
	}
	p := &part{scope: s, base: b, mirror: mirror, inf: mirror.Informer()}
	if b.compact {
		if err := p.readAs(key, example); err != nil {
			mirror.Close()
			return nil, err
		}
	}
	c.bases[b.key] = b
	b.users++
	return p, nil
}

// baseFor returns a mirror that has what a part needs.
func (c *mirrorCache) baseFor(key viewKey, s scope) *base {
	for as := range partialMetadata + 1 {
		b := c.bases[baseKey{viewKey{key.gvk, as}, s.key()}]
		if b != nil && b.serves(key.as) {
			return b
		}
	}
	return nil
}

func (c *mirrorCache) newBase(key viewKey, s scope, res wire.Resource[tarn.Object], example tarn.Object) (*base, error) {
	kind := c.settings.kind(key.gvk)
	b := &base{key: baseKey{key, s.key()}, example: example, res: res, compact: kind.Form == Compact || kind.Form == Automatic && !s.noCopy}
	if key.as == typed && c.config.ContentType == "application/json" {
		b.res = res.Encoded(wire.JSON)
	}
	b.opts = []tarn.Option{tarn.KeepManagedFields(), tarn.Unsharded(), tarn.Drop(kind.Drop...)}
	if b.compact {
		b.opts = append(b.opts, tarn.Compact())
	}
	if len(s.namespaces) > 0 {
		b.opts = append(b.opts, tarn.InNamespaces(s.namespaces...))
	}
	if s.labels != "" {
		b.opts = append(b.opts, tarn.Matching(s.labels))
	}
	if s.fields != "" {
		b.opts = append(b.opts, tarn.MatchingFields(s.fields))
	}
	if c.wasWritten(key.gvk) {
		b.opts = append(b.opts, tarn.Latest())
	}
	apply := func(obj tarn.Object) (tarn.Object, error) {
		named(key, obj)
		if s.transform == nil {
			return obj, nil
		}
		out, err := s.transform.apply(obj)
		if err != nil {
			return nil, err
		}
		if reflect.TypeOf(out) != reflect.TypeOf(obj) {
			return nil, fmt.Errorf("it returned a %T in place of a %T", out, obj)
		}
		return out.(tarn.Object), nil
	}
	if s.transform != nil || key.as == partialMetadata && !b.compact {
		b.change = tarn.NewTransform(key.gvk.Kind, apply)
	}
	return b, nil
}

// named sets the kind of metadata, which does not say otherwise what it is of. Typed objects have none until
// Get and List set it, as in controller-runtime.
func named(key viewKey, obj tarn.Object) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.SetGroupVersionKind(key.gvk)
	}
}

// readAs sets the readings of a part of a compact mirror.
func (p *part) readAs(key viewKey, example tarn.Object) error {
	decode, err := p.mirror.DecoderFor(example)
	if err != nil {
		return err
	}
	reading := store.NewReading(func(raw []byte) tarn.Object {
		obj, err := decode(raw)
		if err != nil {
			err = fmt.Errorf("%s: an object cannot be read as %T: %w", p.mirror.Name(), example, err)
			p.unread.Store(&err)
			return nil
		}
		named(key, obj)
		return obj
	})
	p.owned = reading.Owned()
	if p.base.key.as == key.as && key.as != partialMetadata {
		reading = store.NewReading[tarn.Object](nil)
	} else {
		p.shared = reading
	}
	p.kept = reading.Kept()
	return nil
}

// close ends the handlers of the view and its use of mirrors. c.making is held.
func (v *view) close() {
	v.closed.Store(true)
	for _, p := range v.parts {
		p.mirror.Close()
		if p.base.users--; p.base.users == 0 {
			delete(v.cache.bases, p.base.key)
		}
	}
}

// partFor returns the part that covers a namespace.
func (v *view) partFor(namespace string) *part {
	for _, p := range v.parts {
		for _, ns := range p.namespaces {
			if ns == namespace {
				return p
			}
		}
	}
	if v.restricted {
		return nil
	}
	return v.parts[len(v.parts)-1]
}

// label returns the index of the mirror's objects by labels, which the first selector creates.
func (p *part) label() *store.LabelIndex[tarn.Object] {
	b := p.base
	b.once.Do(func() {
		b.labels = store.NewLabelIndex[tarn.Object](nil)
		p.mirror.AddIndex(b.labels)
	})
	return b.labels
}
