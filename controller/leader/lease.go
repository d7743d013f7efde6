package leader

import (
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/lease"
)

// record is the election's part of a Lease. Records are compared with ==.
type record struct {
	holder            string // empty: released
	seconds           int32  // how long it is valid after a renewal
	transitions       int32  // how often the lease has changed hands
	acquired, renewed int64  // in microseconds since 1970, as precise as a Lease is
}

func recordOf(l *coordinationv1.Lease) record {
	micros := func(t *metav1.MicroTime) int64 {
		if t == nil {
			return 0
		}
		return t.UnixMicro()
	}
	s := &l.Spec
	return record{
		holder: lease.Value(s.HolderIdentity), seconds: lease.Value(s.LeaseDurationSeconds), transitions: lease.Value(s.LeaseTransitions),
		acquired: micros(s.AcquireTime), renewed: micros(s.RenewTime),
	}
}

// write writes the record to a Lease and leaves its other fields unchanged.
func (r record) write(l *coordinationv1.Lease) {
	micros := func(n int64) *metav1.MicroTime { return &metav1.MicroTime{Time: time.UnixMicro(n)} }
	s := &l.Spec
	s.HolderIdentity = nil
	if r.holder != "" {
		s.HolderIdentity = &r.holder
	}
	s.LeaseDurationSeconds, s.LeaseTransitions = &r.seconds, &r.transitions
	s.AcquireTime, s.RenewTime = micros(r.acquired), micros(r.renewed)
}

// tenure is how long this process holds the lease. One goroutine at a time, that of the
// election, calls sending and stored. Any goroutine may call check and left.
type tenure struct {
	lease, identity string
	now             func() lease.Moment
	held            atomic.Pointer[hold] // nil: not held

	// renewed is the renewTime of this process's last record, in seconds, and first is when
	// the first request with that renewTime was sent.
	renewed int64
	first   lease.Moment
}

type hold struct {
	since    lease.Moment
	duration time.Duration
}

// sending is called before a record is sent.
func (t *tenure) sending(r record) {
	if r.holder != t.identity {
		t.held.Store(nil) // released from the moment the request is sent
		t.renewed = 0
		return
	}
	// client-go compares records with a resolution of one second, so its electors count
	// from the first renewal within a second. A failed renewal may still have reached the
	// server.
	if s := time.UnixMicro(r.renewed).Unix(); t.renewed == 0 || t.renewed != s {
		t.renewed, t.first = s, t.now()
	}
}

// stored is called when the server has stored the record.
func (t *tenure) stored(r record) {
	if r.holder == t.identity {
		t.held.Store(&hold{since: t.first, duration: time.Duration(r.seconds) * time.Second})
	}
}

// check returns nil while the lease is held.
func (t *tenure) check() error {
	h := t.held.Load()
	if h == nil {
		return fmt.Errorf("leader: the lease %s is not held: %w", t.lease, controller.ErrNotLeading)
	}
	if passed := t.now().Since(h.since); passed >= h.duration {
		return fmt.Errorf("leader: the lease %s was renewed %v ago and ended after %v: %w",
			t.lease, passed.Round(time.Millisecond), h.duration, controller.ErrNotLeading)
	}
	return nil
}

// left returns how long the lease is still valid.
func (t *tenure) left() time.Duration {
	h := t.held.Load()
	if h == nil {
		return 0
	}
	return max(0, h.duration-t.now().Since(h.since))
}
