package simtest

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/internal/attempt"
	"github.com/tarnproject/tarn/object"
)

// WriteFunc is called when a client's write begins. Its error refuses the write.
type WriteFunc func(ctx context.Context) error

// None are the options of a server's writes.
type None struct{}

// write calls do with the lock held, unless the write is refused. What do returns is stored,
// or deleted if it is marked for deletion and has no finalizers; the answer to a write that
// deletes has the version that the object had, as with a real server.
func (s *Server[T]) write(ctx context.Context, do func() (T, error)) (obj T, err error) {
	if s.OnWrite != nil {
		if err := s.OnWrite(ctx); err != nil {
			return obj, err
		}
	}
	if err := ctx.Err(); err != nil {
		return obj, err
	}
	if check := attempt.Check(ctx); check != nil {
		if err := check(); err != nil {
			return obj, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj, err = do(); err != nil {
		return obj, err
	}
	if obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return s.put(obj), nil
	}
	answer := clone(obj)
	answer.SetResourceVersion(s.objects[KeyOf(obj)].GetResourceVersion())
	s.version++
	obj.SetResourceVersion(string(s.now()))
	s.remove(obj, true)
	return answer, nil
}

// change calls write with a copy of an object.
func (s *Server[T]) change(ctx context.Context, key object.Key, edit func(obj T) (T, error)) (T, error) {
	return s.write(ctx, func() (T, error) {
		old, ok := s.objects[key]
		if !ok {
			return old, apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
		return edit(clone(old))
	})
}

// Create creates an object.
func (s *Server[T]) Create(ctx context.Context, obj T, _ None) (T, error) {
	return s.write(ctx, func() (T, error) {
		if _, ok := s.objects[KeyOf(obj)]; ok {
			return obj, apierrors.NewAlreadyExists(schema.GroupResource{}, obj.GetName())
		}
		created := clone(obj)
		created.SetUID(s.nextUID())
		return created, nil
	})
}

// Update replaces an object, if it has the version that the client knows.
func (s *Server[T]) Update(ctx context.Context, obj T, _ None) (T, error) {
	return s.change(ctx, KeyOf(obj), func(old T) (T, error) {
		if v := obj.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
			return obj, apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), nil)
		}
		next := clone(obj)
		next.SetUID(old.GetUID())
		next.SetDeletionTimestamp(old.GetDeletionTimestamp())
		return next, nil
	})
}

// UpdateStatus is Update.
func (s *Server[T]) UpdateStatus(ctx context.Context, obj T, opts None) (T, error) {
	return s.Update(ctx, obj, opts)
}

// Patch lets a function change an object.
func (s *Server[T]) Patch(ctx context.Context, key object.Key, patch func(T), _ None, _ ...string) (T, error) {
	return s.change(ctx, key, func(obj T) (T, error) {
		patch(obj)
		return obj, nil
	})
}

// Apply gives an object the labels and finalizers of config, which is an object too.
func (s *Server[T]) Apply(ctx context.Context, key object.Key, config any, opts None, _ ...string) (T, error) {
	return s.Patch(ctx, key, func(obj T) {
		obj.SetLabels(config.(T).GetLabels())
		obj.SetFinalizers(config.(T).GetFinalizers())
	}, opts)
}

// DeleteReturning marks an object for deletion, and deletes it if it has no finalizers.
func (s *Server[T]) DeleteReturning(ctx context.Context, key object.Key, _ None) (object.Deletion, error) {
	obj, err := s.change(ctx, key, func(obj T) (T, error) {
		now := metav1.Now()
		obj.SetDeletionTimestamp(&now)
		return obj, nil
	})
	switch {
	case err != nil:
		return object.Deletion{}, err
	case len(obj.GetFinalizers()) == 0:
		return object.Deletion{UID: obj.GetUID()}, nil
	}
	return object.Deletion{UID: obj.GetUID(), Version: object.Version(obj.GetResourceVersion())}, nil
}
