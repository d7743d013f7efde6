package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarnproject/tarn/e2e/patience"
)

// source is a resource that the test observes. Both methods read all namespaces if namespace is empty.
type source struct {
	watch func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	list  func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error)
}

// follower passes every state of the objects of a source to take, in the order of versions.
type follower struct {
	source
	take    func(watch.EventType, runtime.Object) error
	version uint64
	known   map[types.NamespacedName]runtime.Object // the last states
}

// maxFailures is how many watches may fail one after the other, a second apart.
const maxFailures = 120

// follow reads one watch after the other until the context is done: the server ends each after some time,
// and connections break. If the server cannot continue a watch, follow reads the states in between from
// etcd. It fails if these are lost.
func follow(ctx context.Context, version string, s source, take func(watch.EventType, runtime.Object) error) error {
	from, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return err
	}
	f := &follower{source: s, take: take, version: from, known: map[types.NamespacedName]runtime.Object{}}
	for failures := 0; ctx.Err() == nil; {
		before := f.version
		err := f.read(ctx)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = f.recover(ctx)
		}
		if f.version != before || err == nil {
			failures = 0
		}
		if ctx.Err() != nil || err == nil {
			continue
		}
		if failures++; failures > maxFailures || errors.As(err, new(*lostError)) {
			return fmt.Errorf("the watch of the test itself: %w", err)
		}
		patience.Linger(ctx, time.Second)
	}
	return nil
}

// lostError means that the history is not complete.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// read reads one watch to its end.
func (f *follower) read(ctx context.Context) error {
	w, err := f.watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatUint(f.version, 10)})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		if err := f.pass(e.Type, e.Object); err != nil {
			return err
		}
	}
	return nil
}

// pass passes one state on.
func (f *follower) pass(event watch.EventType, obj runtime.Object) error {
	name, version, err := identify(obj)
	if err == nil {
		err = f.take(event, obj)
	}
	if err != nil {
		return &lostError{err}
	}
	f.version = max(f.version, version)
	if f.known[name] = obj; event == watch.Deleted {
		delete(f.known, name)
	}
	return nil
}

func identify(obj runtime.Object) (name types.NamespacedName, version uint64, err error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return name, 0, err
	}
	version, err = strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, version, err
}

// recover passes on what the watches have missed: each object's states back to the last version that was
// seen, and what was deleted. Objects that were created and deleted meanwhile are not found.
func (f *follower) recover(ctx context.Context) error {
	now, reached, err := f.objects(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	type state struct {
		obj     runtime.Object
		version uint64
	}
	var missed []state
	present := map[types.NamespacedName]bool{}
	for _, obj := range now {
		for {
			name, version, err := identify(obj)
			if err != nil {
				return &lostError{err}
			}
			present[name] = true
			if version <= f.version {
				break
			}
			missed = append(missed, state{obj, version})
			older, _, err := f.objects(ctx, name.Namespace, metav1.ListOptions{
				FieldSelector: "metadata.name=" + name.Name, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
				ResourceVersion: strconv.FormatUint(version-1, 10),
			})
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return &lostError{fmt.Errorf("what was written to %s before version %d is lost: %w", name, version, err)}
			}
			if err != nil {
				return err
			}
			if len(older) == 0 {
				break
			}
			obj = older[0]
		}
	}
	slices.SortFunc(missed, func(a, b state) int { return int(a.version) - int(b.version) })
	for _, s := range missed {
		if err := f.pass(watch.Modified, s.obj); err != nil {
			return err
		}
	}
	for name, obj := range f.known {
		if !present[name] {
			if err := f.pass(watch.Deleted, obj); err != nil {
				return err
			}
		}
	}
	f.version = max(f.version, reached)
	return nil
}

// objects lists objects, and returns the version of the list.
func (f *follower) objects(ctx context.Context, namespace string, opts metav1.ListOptions) (all []runtime.Object, version uint64, err error) {
	list, err := f.list(ctx, namespace, opts)
	if err != nil {
		return nil, 0, err
	}
	if all, err = meta.ExtractList(list); err != nil {
		return nil, 0, err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, err
	}
	version, err = strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	return all, version, err
}
