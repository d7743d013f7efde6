package journal

import (
	"cmp"
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tarnproject/tarn/object"
)

// base is the state of one scope as the log has it. It does not change.
type base[T any] struct {
	scope object.Scope
	mark  Mark
	items []object.Item[T]
	index map[object.Key]int // their places
	last  Entry              // the latest change that led to it, without its Data
	// target is a version that the server had after the start.
	target object.Version
	// refused: it cannot be continued. The goroutine of the scope's reflector owns it.
	refused bool
}

// has reports whether the state has an object in a version.
func (b *base[T]) has(key object.Key, uid object.UID, version object.Version) bool {
	i, ok := b.index[key]
	return ok && b.items[i].UID == uid && b.items[i].Version == version
}

// held returns an intake with which the objects of the state are not decoded.
func (b *base[T]) held(in *object.Intake[T]) *object.Intake[T] {
	with := *in
	with.Held = func(key object.Key, uid object.UID, version object.Version) bool {
		return b.has(key, uid, version) || in.Held(key, uid, version)
	}
	return &with
}

// fill gives an item that was not decoded the object of the state.
func (b *base[T]) fill(item *object.Item[T]) {
	if item.Held && b.has(item.Key, item.UID, item.Version) {
		*item = b.items[b.index[item.Key]]
	}
}

// put adds the state of an object, or replaces or removes it.
func (b *base[T]) put(e *Entry, item object.Item[T]) {
	if e.Kind != object.Left && !b.last.Version.After(e.Version) {
		b.last = Entry{Kind: e.Kind, Key: e.Key, UID: e.UID, Version: e.Version}
	}
	i, ok := b.index[e.Key]
	switch last := len(b.items) - 1; {
	case e.removes() && !ok:
	case e.removes():
		delete(b.index, e.Key)
		if i != last {
			b.items[i] = b.items[last]
			b.index[b.items[i].Key] = i
		}
		b.items[last] = object.Item[T]{}
		b.items = b.items[:last]
	case ok:
		b.items[i] = item
	default:
		b.index[e.Key] = len(b.items)
		b.items = append(b.items, item)
	}
}

// load reads the log, once, and refuses what it has if there is a cause. An error is one of a request, which may
// succeed later.
func (s *Source[T]) load(ctx context.Context, in *object.Intake[T], cause error) error {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.loaded {
		return nil
	}
	var bases map[object.Scope]*base[T]
	var st State
	err := s.opts.Allowed()
	if err == nil {
		var want Identity
		switch want, err = s.opts.Identity(ctx); {
		case err == nil:
			bases, st, err = restore(s.log, want, in.Encoder, s.opts.Decode)
			for _, b := range bases {
				same, failed := s.same(ctx, b, want)
				if failed != nil && !expired(failed) { // an expired one is found out by the watch
					return failed
				} else if failed == nil && !same {
					s.loaded = true
					s.rewound()
					return nil
				}
			}
		case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
			return err
		}
	}
	if err == nil && st.Unreadable > 0 {
		err = errPartial
	}
	s.loaded = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Refused = cmp.Or(err, cause); err != nil {
		return nil
	}
	s.bases, s.status.From = bases, st.At
	for _, b := range bases {
		s.status.Objects += len(b.items)
		b.refused = cause != nil
	}
	return nil
}

// same gets the target, and reports whether the server has the last change of a state in its history. The history was
// restored from a backup otherwise, and may have passed the version of the state since. What this does not find is a
// backup that was made after that change.
func (s *Source[T]) same(ctx context.Context, b *base[T], of Identity) (same bool, err error) {
	last := b.last
	if b.target, err = s.latest(ctx, string(b.scope)); err != nil {
		return false, err
	}
	if b.mark.Version.After(b.target) || last.Version.After(b.target) {
		return false, nil
	}
	if !last.Version.Ordered() {
		return true, nil
	}
	name := fields.OneTermEqualSelector("metadata.name", last.Key.Name).String()
	if of.Fields != "" {
		name = of.Fields + "," + name
	}
	opts := object.ListOptions{Match: object.Exact, Version: b.mark.Version}
	opts.Selection = object.Selection{Namespace: last.Key.Namespace, Labels: of.Labels, Fields: name}
	if last.Version.After(opts.Version) { // a deletion, which others may have followed
		opts.Version = last.Version
	}
	same = last.removes()
	_, err = s.server.List(ctx, opts, nil, func(item object.Item[T]) error {
		same = !last.removes() && item.UID == last.UID && item.Version == last.Version
		return nil
	})
	return same, err
}

// restore reads the state of a log, as the mirror holds it.
func restore[T any](log *Log, want Identity, as object.Encoder[T], decode func([]byte) (T, error)) (map[object.Scope]*base[T], State, error) {
	bases := map[object.Scope]*base[T]{}
	var failure error
	st, err := log.Load(want, func() { clear(bases) }, func(e *Entry) {
		scope := object.Everything
		if want.Namespaces != nil {
			scope = object.Scope(e.Key.Namespace)
		}
		b := bases[scope]
		if b == nil {
			b = &base[T]{scope: scope, index: map[object.Key]int{}}
			bases[scope] = b
		}
		var item object.Item[T]
		if failure == nil && !e.removes() {
			item, failure = itemOf(e, as, decode)
		}
		b.put(e, item)
	})
	if err == nil {
		err = failure
	}
	// A scope may be without objects, or without a mark: its last list was not complete.
	for _, m := range st.Marks {
		if bases[m.Scope] == nil {
			bases[m.Scope] = &base[T]{scope: m.Scope}
		}
		bases[m.Scope].mark = m
	}
	maps.DeleteFunc(bases, func(_ object.Scope, b *base[T]) bool { return !b.mark.Version.Known() })
	return bases, st, err
}

// itemOf returns an object as the mirror holds it.
func itemOf[T any](e *Entry, as object.Encoder[T], decode func([]byte) (T, error)) (item object.Item[T], err error) {
	item = object.Item[T]{Key: e.Key, UID: e.UID, Version: e.Version, Prepared: true}
	if as.Encode == nil || as.Reads == nil || len(as.Reads) > 0 {
		if item.Object, err = decode(e.Data); err != nil {
			return item, err
		}
	}
	if as.Encode == nil {
		return item, nil
	}
	encoded, err := as.Encode(item.Object, e.Data)
	if err == nil && encoded != nil {
		item.Value = object.Value[T]{Encoded: encoded}
	}
	return item, err
}
