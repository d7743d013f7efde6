package tarn

import (
	"cmp"
	"os"
	"path/filepath"
	"time"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// WriteOption changes one write of a [Client].
type WriteOption func(*writeOptions)

type writeOptions struct {
	wire.WriteOptions
	uid         object.UID
	propagation wire.Propagation
	grace       *time.Duration
}

// FieldManager sets the field manager of a write. Defaults to that of [WithFieldManager].
func FieldManager(name string) WriteOption { return func(o *writeOptions) { o.FieldManager = name } }

// Force lets Apply take fields from other field managers.
func Force() WriteOption { return func(o *writeOptions) { o.Force = true } }

// DryRun validates a write without storing it. It is neither tracked nor fenced.
func DryRun() WriteOption { return func(o *writeOptions) { o.DryRun = true } }

// Strict makes the server refuse unknown and duplicate fields.
func Strict() WriteOption { return func(o *writeOptions) { o.Validation = wire.ValidateStrict } }

// OnlyUID lets Delete delete only the object with this UID, not a newer one of the same name.
func OnlyUID(uid object.UID) WriteOption { return func(o *writeOptions) { o.uid = uid } }

// Propagate says how Delete treats owned objects. Defaults to the resource's default.
func Propagate(p wire.Propagation) WriteOption { return func(o *writeOptions) { o.propagation = p } }

// GracePeriod is the time that Delete gives a pod to terminate. Defaults to the pod's own.
func GracePeriod(d time.Duration) WriteOption { return func(o *writeOptions) { o.grace = &d } }

func (c *Client[T]) options(opts []WriteOption, subresource string) writeOptions {
	o := writeOptions{WriteOptions: wire.WriteOptions{Subresource: subresource, FieldManager: cmp.Or(c.mirror.cluster.opts.fieldManager, filepath.Base(os.Args[0]))}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
