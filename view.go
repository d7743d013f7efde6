package tarn

import (
	"slices"

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
func (v mirrorView[P]) Masked() []object.FieldPath { return nil }

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
