package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Get implements client.Reader.
func (c *mirrorCache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	v, err := c.reader(ctx, out)
	if err != nil {
		return err
	}
	options := (&client.GetOptions{}).ApplyOptions(opts)
	if !v.namespaced {
		key.Namespace = ""
	}
	p := v.partFor(key.Namespace)
	if p == nil {
		return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
	}
	how := p.copies(options.UnsafeDisableDeepCopy)
	obj, ok, err := p.get(ctx, object.Key(key), how)
	switch {
	case err != nil:
		return err
	case !ok:
		return apierrors.NewNotFound(schema.GroupResource{Group: v.key.gvk.Group, Resource: v.key.gvk.Kind}, key.Name)
	}
	is, into := reflect.ValueOf(obj), reflect.ValueOf(out)
	if !is.Type().AssignableTo(into.Type()) {
		return fmt.Errorf("cache had type %s, but %s was asked for", is.Type(), into.Type())
	}
	into.Elem().Set(is.Elem())
	if how.owned {
		out.GetObjectKind().SetGroupVersionKind(v.key.gvk)
	}
	return nil
}

// copying is how objects leave the cache.
type copying struct {
	reading *store.Reading[tarn.Object] // nil if the mirror holds objects decoded
	owned   bool                        // the reader owns them
}

// copies returns how objects leave the cache. disabled is what the options of the read say.
func (p *part) copies(disabled *bool) copying {
	if p.noCopy || disabled != nil && *disabled {
		return copying{p.kept, false}
	}
	return copying{p.owned, true}
}

// of returns an object as it leaves the cache.
func (how copying) of(obj tarn.Object) tarn.Object {
	if how.owned && how.reading == nil {
		return obj.DeepCopyObject().(tarn.Object)
	}
	return obj
}

// ownReads is the key of a context whose reads are not older than this process's writes.
type ownReads struct{}

func (p *part) get(ctx context.Context, key object.Key, how copying) (obj tarn.Object, ok bool, err error) {
	own := ctx.Value(ownReads{}) != nil
	for pending := true; pending; {
		pending = false
		p.inf.View(func(snap store.Snapshot[tarn.Object]) {
			if own {
				pending, err = p.inf.Writes().CheckIn(snap, key)
			}
			if !pending && err == nil {
				obj, ok = snap.With(how.reading).Get(key)
			}
		})
		if pending {
			err = p.inf.Writes().Wait(ctx, key)
		}
		if err != nil {
			return nil, false, err
		}
	}
	switch {
	case !ok:
		return nil, false, p.inf.Unreadable(key)
	case obj == nil:
		return nil, false, p.undecodable()
	}
	return how.of(obj), true, nil
}

// undecodable returns the error for an object that is not of the view's type.
func (p *part) undecodable() error {
	if err := p.unread.Load(); err != nil {
		return *err
	}
	return errors.New("an object of the cache cannot be decoded")
}

var errContinue = errors.New("continue list option is not supported by the cache")

// List implements client.Reader. The objects of a mirror are those of one moment.
func (c *mirrorCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	v, err := c.reader(ctx, out)
	if err != nil {
		return err
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Continue != "" {
		return errContinue
	}
	if options.FieldSelector != nil && !exact(options.FieldSelector) {
		return errors.New("non-exact field matches are not supported by the cache")
	}
	parts := v.parts
	if v.namespaced && options.Namespace != "" {
		p := v.partFor(options.Namespace)
		if p == nil {
			return fmt.Errorf("unable to list: %v because of unknown namespace for the cache", options.Namespace)
		}
		parts = []*part{p}
	}
	found, version := []runtime.Object{}, object.Version("")
	for _, p := range parts {
		at, err := v.list(ctx, p, options, &found)
		if err != nil {
			return err
		}
		version = earlier(version, at)
	}
	if err := apimeta.SetList(out, found); err != nil {
		return err
	}
	out.SetResourceVersion(string(version))
	out.SetContinue("continue-not-supported")
	return nil
}

// exact reports whether a field selector has only terms of the form k=v.
func exact(s fields.Selector) bool {
	terms := s.Requirements()
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(r fields.Requirement) bool {
		return r.Operator != selection.Equals && r.Operator != selection.DoubleEquals
	})
}

// earlier returns the version that both lists have reached.
func earlier(a, b object.Version) object.Version {
	if order, ok := a.Compare(b); a == "" || ok && order > 0 {
		return b
	}
	return a
}

// list appends what the options select in a part, and returns the version of the list.
func (v *view) list(ctx context.Context, p *part, options *client.ListOptions, found *[]runtime.Object) (version object.Version, err error) {
	how := p.copies(options.UnsafeDisableDeepCopy)
	var snap store.Snapshot[tarn.Object]
	if ctx.Value(ownReads{}) == nil {
		snap = p.inf.Snapshot()
	} else {
		of := informer.Part{Labels: options.LabelSelector}
		if v.namespaced && options.Namespace != "" {
			of.Namespaces = []string{options.Namespace}
		}
		if snap, err = p.inf.Writes().Snapshot(ctx, of); err != nil {
			return "", err
		}
	}
	snap = snap.With(how.reading)
	defer snap.Release()
	objects, matches, err := v.query(p, snap, options)
	if err != nil {
		return "", err
	}
	for obj := range objects {
		if options.Limit > 0 && int64(len(*found)) >= options.Limit {
			break
		}
		if obj == nil {
			return "", p.undecodable()
		}
		if !matches(obj) {
			continue
		}
		if obj = how.of(obj); how.owned {
			obj.GetObjectKind().SetGroupVersionKind(v.key.gvk)
		}
		*found = append(*found, obj)
	}
	for mark := range snap.Marks() {
		version = earlier(version, mark.Version)
	}
	return version, nil
}

// query returns the objects that an index finds for the options, and what they must meet besides.
func (v *view) query(p *part, snap store.Snapshot[tarn.Object], options *client.ListOptions) (objects iter.Seq[tarn.Object], matches func(tarn.Object) bool, err error) {
	matches = func(tarn.Object) bool { return true }
	namespace, selector := options.Namespace, options.LabelSelector
	switch {
	case options.FieldSelector != nil:
		terms := options.FieldSelector.Requirements()
		indexes := make([]*index, len(terms))
		for i, term := range terms {
			if indexes[i] = v.index(fieldIndex(term.Field)); indexes[i] == nil {
				return nil, nil, fmt.Errorf("Index with name %s does not exist", fieldIndex(term.Field)) //nolint:staticcheck // as client-go says it
			}
		}
		objects = indexes[0].of(p).Get(snap, fieldValue(namespace, terms[0].Value))
		matches = func(obj tarn.Object) bool {
			if selector != nil && !selector.Matches(labelsOf(obj)) {
				return false
			}
			for i := 1; i < len(terms); i++ {
				values, err := indexes[i].values(obj)
				if err != nil || !slices.Contains(values, fieldValue(namespace, terms[i].Value)) {
					return false
				}
			}
			return true
		}
	case selector != nil && !selector.Empty():
		objects = p.label().SelectIn(snap, namespace, selector)
	case namespace != "":
		objects = snap.Namespace(namespace)
	default:
		objects = snap.All()
	}
	return objects, matches, nil
}
