package shard

import (
	"context"
	"errors"
	"strconv"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// Controller is a controller with Options.Claims whose Options.Queue.Group is [ByNamespace],
// [ByKey], or another function that returns the result of [Slot.String]. A *controller.Controller
// is one.
type Controller interface {
	controller.Runner
	// Claim reconciles the keys of a group until the context is done.
	Claim(ctx context.Context, group string) error
}

// String returns the slot's number, the name of its group of keys.
func (s Slot) String() string { return strconv.Itoa(int(s)) }

// ByNamespace returns the slot of a key's namespace. Objects of a namespace belong to the same
// member, so owners and dependents stay together. Cluster-scoped objects are all in one slot.
func ByNamespace(key object.Key) string { return SlotOf(key.Namespace).String() }

// ByKey returns the slot of a key's namespace and name. It divides the work evenly whatever the
// namespaces are.
func ByKey(key object.Key) string { return SlotOf(key.String()).String() }

// Sharded returns a Runner that runs controllers on the slots that this process has in a group. All
// members of a group must run the same controllers. Run informers next to it, not in it.
func Sharded(g *Group, controllers ...Controller) controller.Runner {
	return &sharded{g, controllers}
}

type sharded struct {
	group       *Group
	controllers []Controller
}

// Run implements [controller.Runner]. The controllers run until this process has left the group.
func (s *sharded) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	inner, stopInner := context.WithCancel(context.WithoutCancel(ctx))
	defer stopInner()
	ended := make(chan error, len(s.controllers))
	for _, c := range s.controllers {
		go func() {
			err := c.Run(inner)
			stop()
			ended <- err
		}()
	}
	errs := []error{s.group.Run(ctx, func(ctx context.Context, slot Slot, fence controller.Fence) {
		ctx = controller.WithFence(ctx, fence)
		claims := make(chan struct{}, len(s.controllers))
		for _, c := range s.controllers {
			go func() {
				if err := c.Claim(ctx, slot.String()); err != nil {
					s.group.opts.Logger.Error("a slot could not be claimed", "slot", slot.String(), "error", err)
				}
				claims <- struct{}{}
			}()
		}
		for range s.controllers {
			<-claims
		}
	})}
	stopInner()
	for range s.controllers {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}
