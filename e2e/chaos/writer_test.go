package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
)

// scribe writes with client-go, so that what Tarn reads was not written by it.
type scribe struct {
	client *dynamic.DynamicClient
	pause  sync.RWMutex // locked while writers must wait

	writes, failures atomic.Int64
}

func newScribe(config *rest.Config) (*scribe, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 5 * time.Second // a server that is paused must not keep a writer for long
	client, err := dynamic.NewForConfig(config)
	return &scribe{client: client}, err
}

// names is how many objects of each resource there may be in a namespace.
const names = 25

// run writes until the context is done, as fast as the server lets it.
func (s *scribe) run(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		s.pause.RLock()
		err := s.write(ctx, rng)
		s.pause.RUnlock()
		switch {
		case err == nil:
			s.writes.Add(1)
		case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			// Another writer was there before.
		default:
			s.failures.Add(1)
			patience.Linger(ctx, 20*time.Millisecond)
		}
	}
}

// write does one thing to one object.
func (s *scribe) write(ctx context.Context, rng *rand.Rand) error {
	res := []object.Resource{configMaps, pods, widgets}[rng.IntN(3)]
	key := object.Key{Namespace: namespaces[rng.IntN(len(namespaces))], Name: fmt.Sprintf("thing-%02d", rng.IntN(names))}
	value := text(rng)
	api := s.client.Resource(res.GVR()).Namespace(key.Namespace)
	switch n := rng.IntN(100); {
	case n < 15:
		grace := int64(0)
		return api.Delete(ctx, key.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	case n < 35:
		return s.create(ctx, res, key, value)
	default:
		_, err := s.patch(ctx, res, key, value)
		if apierrors.IsNotFound(err) {
			return s.create(ctx, res, key, value)
		}
		return err
	}
}

// text is mostly short and sometimes so long that it comes in several pieces.
func text(rng *rand.Rand) string {
	size := rng.IntN(300)
	if rng.IntN(40) == 0 {
		size = rng.IntN(40_000)
	}
	return fmt.Sprint(rng.Uint32()) + strings.Repeat("ab\"\\ü\n", size/6)
}

func (s *scribe) create(ctx context.Context, res object.Resource, key object.Key, value string) error {
	obj := map[string]any{
		"apiVersion": res.GVK().GroupVersion().String(), "kind": res.Kind,
		"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
	}
	switch res {
	case configMaps:
		obj["data"] = map[string]any{"value": value}
	case pods:
		obj["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/main"}}}
	case widgets:
		obj["spec"] = map[string]any{"value": value, "size": int64(len(value)), "share": float64(len(value)) / 7}
	}
	_, err := s.client.Resource(res.GVR()).Namespace(key.Namespace).Create(ctx, &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	return err
}

// patch changes an object and returns it.
func (s *scribe) patch(ctx context.Context, res object.Resource, key object.Key, value string) (*unstructured.Unstructured, error) {
	var change any
	switch res {
	case configMaps:
		change = map[string]any{"data": map[string]any{"value": value}}
	case pods:
		change = map[string]any{"metadata": map[string]any{"annotations": map[string]any{"value": value}}}
	case widgets:
		change = map[string]any{"spec": map[string]any{"value": value, "size": len(value)}}
	}
	data, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return s.client.Resource(res.GVR()).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, data, metav1.PatchOptions{})
}

// canary writes an object of a resource that has no other writer, retrying as often as needed,
// and returns its version.
func (s *scribe) canary(ctx context.Context, res object.Resource, value string) (key object.Key, version object.Version, err error) {
	key = object.Key{Namespace: namespaces[0], Name: "canary"}
	err = patience.For(ctx, "a write to "+res.String(), func() error {
		now, err := s.patch(ctx, res, key, value)
		if apierrors.IsNotFound(err) {
			if err := s.create(ctx, res, key, value); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			now, err = s.patch(ctx, res, key, value+"!")
		}
		if err == nil {
			version = object.Version(now.GetResourceVersion())
		}
		return err
	})
	return key, version, err
}
