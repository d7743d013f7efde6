package controllerruntime

import (
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/object"
)

// Options say how a cache holds objects. The zero Options are those of [NewCache]: every kind is compact,
// except those for which cache.Options disables copies.
type Options struct {
	// Default are the settings of the kinds that are not in ByObject. Defaults to the zero Kind.
	Default Kind
	// ByObject are the settings of single kinds, by an object of each, as in cache.Options. They replace
	// Default. Defaults to none.
	ByObject map[client.Object]Kind
	// Connect are options of the tarn.Cluster behind the cache, such as tarn.WithAudit, tarn.WithConsole and
	// tarn.WithTuning. The address, the credentials and the rate limit are those of the manager.
	// Defaults to none.
	Connect []tarn.ConnectOption
}

// Kind says how the objects of a kind are held. The zero Kind works.
type Kind struct {
	// Form is how objects are held. Defaults to Automatic.
	Form Form
	// Drop are fields that are not held: readers see objects without them. Many programs can drop
	// object.ManagedFields and object.LastApplied. Defaults to none.
	Drop []object.FieldPath
}

// Form is how the objects of a kind are held.
type Form uint8

// The forms.
const (
	// Automatic is Compact, or Decoded if cache.Options disables copies of the kind.
	Automatic Form = iota
	// Compact holds objects encoded and compressed: least memory, and a read decodes.
	Compact
	// Decoded holds Go objects: a read copies, or with UnsafeDisableDeepCopy does nothing.
	Decoded
)

// NewCache is a cache.NewCacheFunc, for ctrl.Options.NewCache and cluster.Options.NewCache.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	return Options{}.newCache(config, opts)
}

// Cache is [NewCache] with options:
//
//	NewCache: controllerruntime.Cache(controllerruntime.Options{…})
func Cache(options Options) cache.NewCacheFunc { return options.newCache }
