package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// contents are encoded objects.
type contents map[object.Key]content

// content is an encoded object, with its UID.
type content struct {
	uid  types.UID
	data []byte
}

// lister returns what the server has, as client-go reads it on a way without faults.
type lister func(ctx context.Context, in object.Scope, opts metav1.ListOptions) (contents, error)

// form is one way to mirror a resource, with its subscribers.
type form interface {
	// title identifies it.
	title() string
	// resource is what is written to change it.
	resource() string
	// run runs it until the context is done.
	run(ctx context.Context) error
	// reaches waits until it has an object at a version, or a later one.
	reaches(ctx context.Context, key object.Key, version object.Version) error
	// look notes where it stands, which must not be behind where it stood.
	look()
	// slow reports whether it may take long to recover.
	slow() bool
	// unaware counts the sources that are not in the epoch after so many rewinds, and those of them
	// that watch.
	unaware(rewinds int64) (sources, watching int)
	// renew recreates what cannot be made to notice a rewind soon enough.
	renew() error
	// holds returns how it differs from what the server has.
	holds(want contents) error
	// equals returns the same for it and its subscribers.
	equals(want contents) error
	// fresh is what the server has.
	fresh(ctx context.Context) (contents, error)
	// moment compares the mirror as it is now with what the server had at that version.
	// It reports whether there was anything to compare.
	moment(ctx context.Context) (bool, error)
	// wrong lists violations.
	wrong() []string
	// figures are what happened.
	figures() figures
}

// mirror is a form that is an informer.
type mirror[T metav1.Object] struct {
	*informer.Informer[T]
	name, of string
	// runs is what runs the informer, nil if a cluster does.
	runs   func(context.Context) error
	encode func(T) ([]byte, error)
	list   lister
	// scopes are what it covers: everything, or namespaces.
	scopes []object.Scope
	// rewinds is how often the server's history was restored.
	rewinds *atomic.Int64

	views []*view[T]
	loop  *view[T]

	mu    sync.Mutex // guards what follows
	marks map[object.Scope]object.Mark
	back  []string
}

// newMirror adds subscribers to an informer. The ensemble's gate stops the slow one while
// it is locked.
func newMirror[T metav1.Object](e *ensemble, of, name string, inf *informer.Informer[T], in []string, encode func(T) ([]byte, error), list lister) (*mirror[T], error) {
	m := &mirror[T]{
		Informer: inf, name: name, of: of, encode: encode, list: list, rewinds: &e.rewinds, marks: map[object.Scope]object.Mark{},
	}
	for _, ns := range in {
		m.scopes = append(m.scopes, object.Scope(ns))
	}
	if in == nil {
		m.scopes = []object.Scope{object.Everything}
	}
	for _, name := range []string{"handler", "slow batches", "loop"} {
		m.views = append(m.views, newView[T](name, &e.rewinds))
	}
	handler, slow, loop := m.views[0], m.views[1], m.views[2]
	slow.flagged, loop.flagged = true, true // a Handler has no parameter for rewinds
	m.loop = loop
	_, err := inf.Subscribe(informer.Handler[T]{
		OnAdd:    func(obj T, _ bool) { handler.take(change[T]{kind: object.Added, now: obj}) },
		OnUpdate: func(old, now T) { handler.take(change[T]{kind: object.Updated, old: old, now: now}) },
		OnDelete: func(obj T, unknown bool) {
			handler.take(change[T]{kind: object.Deleted, unknown: unknown, old: obj, now: obj})
		},
	}, informer.SubOptions[T]{Name: handler.name})
	if err != nil {
		return nil, err
	}
	_, err = inf.SubscribeBatch(func(_ context.Context, events []informer.Event[T]) {
		e.gate.RLock()
		defer e.gate.RUnlock()
		for _, event := range events {
			slow.take(changeOf(event))
		}
	}, informer.SubOptions[T]{Name: slow.name})
	return m, err
}

func (m *mirror[T]) title() string    { return m.of + ", " + m.name }
func (m *mirror[T]) resource() string { return m.of }
func (m *mirror[T]) slow() bool       { return false }

func (m *mirror[T]) run(ctx context.Context) error {
	var looping sync.WaitGroup
	defer looping.Wait()
	looping.Go(func() {
		for e := range m.Events(ctx, informer.SubOptions[T]{Name: m.loop.name}) {
			m.loop.take(changeOf(e))
		}
	})
	if m.runs == nil {
		<-ctx.Done()
		return nil
	}
	return m.runs(ctx)
}

func (m *mirror[T]) reaches(ctx context.Context, key object.Key, version object.Version) error {
	if err := m.WaitForKey(ctx, key, version); err != nil {
		return fmt.Errorf("%s: %w\n%s", m.title(), err, m.Status())
	}
	return nil
}

func (m *mirror[T]) fresh(ctx context.Context) (contents, error) {
	all := contents{}
	for _, scope := range m.scopes {
		some, err := m.list(ctx, scope, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

func (m *mirror[T]) unaware(rewinds int64) (sources, watching int) {
	for _, src := range m.Status().Sources {
		if s := src.Reflector; int64(s.Mark.Epoch) < rewinds {
			sources++
			if s.State == reflector.Watching && s.Connected {
				watching++
			}
		}
	}
	return sources, watching
}

func (m *mirror[T]) renew() error { return nil }

func (m *mirror[T]) holds(want contents) error {
	var got contents
	var err error
	m.View(func(snap store.Snapshot[T]) { got, err = encoded(snap.All(), m.encode) })
	if err != nil {
		return err
	}
	if err := difference(got, want); err != nil {
		return fmt.Errorf("%s: the mirror: %w", m.title(), err)
	}
	return nil
}

func (m *mirror[T]) equals(want contents) error {
	if err := m.holds(want); err != nil {
		return err
	}
	for _, v := range m.views {
		got, err := encoded(each(v.state()), m.encode)
		if err != nil {
			return err
		}
		if err := difference(got, want); err != nil {
			return fmt.Errorf("%s: the view of %s: %w", m.title(), v.name, err)
		}
	}
	return nil
}

func (m *mirror[T]) moment(ctx context.Context) (bool, error) {
	snap := m.Snapshot()
	defer snap.Release()
	all, err := encoded(snap.All(), m.encode)
	if err != nil {
		return false, err
	}
	compared := false
	// Each namespace has a version of its own.
	for mark := range snap.Marks() {
		want, err := m.list(ctx, mark.Scope, metav1.ListOptions{
			ResourceVersion: string(mark.Version), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		compared = true
		got := maps.Clone(all)
		maps.DeleteFunc(got, func(key object.Key, _ content) bool { return !mark.Scope.Covers(key) })
		if len(got) < len(want) {
			// Deletions may share a version, which is claimed when it is complete: objects may be
			// missing that were deleted since (object.Mark), and so do not exist now with that UID.
			now, err := m.list(ctx, mark.Scope, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for key, was := range want {
				if _, held := got[key]; !held && now[key].uid != was.uid {
					delete(want, key)
				}
			}
		}
		if err := difference(got, want); err != nil {
			return true, fmt.Errorf("%s: a snapshot at %+v: %w", m.title(), mark, err)
		}
	}
	return compared, nil
}

// look notes where the mirror stands.
func (m *mirror[T]) look() {
	m.View(m.watchMarks)
}

// watchMarks notes the marks of a snapshot, which must not be behind those of one before,
// nor of an epoch that has not begun.
func (m *mirror[T]) watchMarks(snap store.Snapshot[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for now := range snap.Marks() {
		if before := m.marks[now.Scope]; before.Version != "" && !now.Reached(before) || int64(now.Epoch) > m.rewinds.Load() {
			m.back = append(m.back, fmt.Sprintf("a snapshot at %+v after one at %+v", now, before))
		}
		m.marks[now.Scope] = now
	}
}

func (m *mirror[T]) wrong() []string {
	var all []string
	for _, v := range m.views {
		_, wrong := v.found()
		all = append(all, wrong...)
	}
	rewinds := m.rewinds.Load()
	m.mu.Lock()
	all = append(all, m.back...)
	m.mu.Unlock()
	m.View(func(snap store.Snapshot[T]) {
		for mark := range snap.Marks() {
			if int64(mark.Epoch) != rewinds {
				all = append(all, fmt.Sprintf("a snapshot at %+v after %d rewinds", mark, rewinds))
			}
		}
	})
	s := m.Status()
	for _, q := range s.Quarantine {
		all = append(all, fmt.Sprintf("%s is in quarantine: %v", q.Key, q.Cause))
	}
	if s.Refused > 0 {
		all = append(all, fmt.Sprintf("the store refused %d batches, at last: %v", s.Refused, s.LastRefused))
	}
	for _, sub := range s.Subscribers {
		if sub.Panics > 0 {
			all = append(all, fmt.Sprintf("%s panicked: %v", sub.Name, sub.LastPanic))
		}
	}
	for _, src := range s.Sources {
		if n := int64(src.Reflector.Mark.Epoch); n != rewinds {
			all = append(all, fmt.Sprintf("%d rewinds were noticed, %d there were", n, rewinds))
		}
	}
	for i, w := range all {
		all[i] = m.title() + ": " + w
	}
	return all
}

func (m *mirror[T]) figures() figures {
	f := figures{form: m.title(), objects: m.Len(), ended: map[reflector.Reason]int64{}}
	s := m.Status()
	for _, src := range s.Sources {
		c := src.Reflector.Counts
		f.received += c.Events
		f.stale += c.Stale
		f.relists += max(c.Lists-1, 0)
		f.rewinds += c.Rewinds
		f.streamed += c.Streamed
		f.reconnects += max(c.Watches-1, 0)
		for reason, n := range c.Ended {
			f.ended[reason] += n
		}
	}
	for _, v := range m.views {
		n, _ := v.found()
		f.delivered += n
	}
	for _, sub := range s.Subscribers {
		f.caughtUp += sub.CaughtUp
	}
	return f
}

// each yields the elements of a slice.
func each[T any](all []T) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for _, v := range all {
			if !yield(v) {
				return
			}
		}
	}
}

func encoded[T metav1.Object](all func(yield func(T) bool), encode func(T) ([]byte, error)) (contents, error) {
	c := contents{}
	for obj := range all {
		data, err := encode(obj)
		if err != nil {
			return nil, err
		}
		c[object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}] = content{obj.GetUID(), data}
	}
	return c, nil
}

// difference says in what contents are not what they should be.
func difference(got, want contents) error {
	var missing, extra, other []object.Key
	for key, c := range want {
		if have, ok := got[key]; !ok {
			missing = append(missing, key)
		} else if !bytes.Equal(have.data, c.data) {
			other = append(other, key)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			extra = append(extra, key)
		}
	}
	if len(missing)+len(extra)+len(other) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d objects are missing %v, %d too many %v, %d different %v",
		len(missing), first(missing), len(extra), first(extra), len(other), first(other))
	if len(other) > 0 {
		text += fmt.Sprintf("\ngot  %q\nwant %q", clip(got[other[0]].data), clip(want[other[0]].data))
	}
	return errors.New(text)
}

func first(keys []object.Key) []object.Key { return keys[:min(len(keys), 3)] }

func clip(data []byte) []byte { return data[:min(len(data), 2000)] }
