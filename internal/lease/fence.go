package lease

import (
	"sync/atomic"

	"github.com/tarnproject/tarn/controller"
)

// Fence is a [controller.Fence] that can be closed for good. Create one with [NewFence]. Its methods are safe for
// concurrent use.
type Fence struct {
	check  func() error
	closed error // what Check returns after Close
	lost   chan struct{}
	over   atomic.Bool
}

var _ controller.Fence = (*Fence)(nil)

// NewFence returns a fence that is open while check returns nil, until it is closed. closed is the error after that.
func NewFence(check func() error, closed error) *Fence {
	return &Fence{check: check, closed: closed, lost: make(chan struct{})}
}

// Check implements [controller.Fence].
func (f *Fence) Check() error {
	if f.over.Load() {
		return f.closed
	}
	return f.check()
}

// Lost implements [controller.Fence].
func (f *Fence) Lost() <-chan struct{} { return f.lost }

// Close closes the fence for good.
func (f *Fence) Close() {
	if f.over.CompareAndSwap(false, true) {
		close(f.lost)
	}
}
