package tarn

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// MirrorNamed implements [console.Cluster].
func (c *Cluster) MirrorNamed(name string) console.Mirror {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.order, func(m *shared) bool { return m.name == name }); i >= 0 {
		return c.order[i].view
	}
	return nil
}

// ControllerNamed implements [console.Cluster].
func (c *Cluster) ControllerNamed(name string) console.Controller {
	for _, ctl := range c.work.Controllers() {
		if of, ok := ctl.(console.Controller); ok && ctl.Name() == name {
			return of
		}
	}
	return nil
}

// viewed is a mirrorView of any type.
type viewed interface {
	console.Mirror
	follow(h *history) error
	averageSize() int64
}

// mirrorView is a mirror as the console sees it.
type mirrorView[P Object] struct {
	shared *shared
	inf    *informer.Informer[P]
}

// Name implements [console.Mirror].
func (v mirrorView[P]) Name() string { return v.shared.name }

// Resource implements [console.Mirror].
func (v mirrorView[P]) Resource() object.Resource { return v.shared.id.resource }

// Masked implements [console.Mirror].
func (v mirrorView[P]) Masked() []object.FieldPath {
	if paths := v.shared.masked.Load(); paths != nil {
		return *paths
	}
	return nil
}

// History implements [console.Mirror].
func (v mirrorView[P]) History(key object.Key) []console.Version {
	if h := v.shared.history.Load(); h != nil {
		return h.of(key)
	}
	return nil
}

func (v mirrorView[P]) follow(h *history) error { return follow(h, v.inf) }

// Revision implements [console.Mirror].
func (v mirrorView[P]) Revision() uint64 {
	snap := v.inf.Pin()
	defer snap.Release()
	return snap.Revision()
}

// Keys implements [console.Mirror].
func (v mirrorView[P]) Keys(yield func(object.Key) bool) {
	snap := v.inf.Pin()
	defer snap.Release()
	snap.Keys()(yield)
}

// Find implements [console.Mirror].
func (v mirrorView[P]) Find(index, value string) (keys []string, ok bool) {
	snap := v.inf.Pin()
	defer snap.Release()
	return snap.Find(index, value)
}

// Get implements [console.Mirror].
func (v mirrorView[P]) Get(key object.Key) (controller.Object, bool) {
	obj, ok := v.inf.Get(key)
	return obj, ok
}

// Relist implements [console.Mirror].
func (v mirrorView[P]) Relist(cause error) { v.inf.Relist(cause) }

// sizes is about how large an object of a mirror is as JSON.
type sizes struct {
	mu      sync.Mutex // guards all below
	at      time.Time  // of the sample
	average int64
}

const (
	sampleSize   = 16 // objects
	samplePeriod = time.Minute
)

// averageSize returns the average size of a few objects as JSON. It takes another sample after a
// minute.
func (v mirrorView[P]) averageSize() int64 {
	s := &v.shared.size
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.average > 0 && time.Since(s.at) < samplePeriod {
		return s.average
	}
	n, total := 0, 0
	v.Keys(func(key object.Key) bool {
		if obj, ok := v.inf.Get(key); ok {
			if data, err := json.Marshal(obj); err == nil {
				n, total = n+1, total+len(data)
			}
		}
		return n < sampleSize
	})
	if n > 0 {
		s.average, s.at = int64(total/n), time.Now()
	}
	return s.average
}
