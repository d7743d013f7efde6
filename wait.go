package tarn

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarnproject/tarn/informer"
)

// WaitSynced blocks until every mirror is synced, including those declared meanwhile. If the
// context is done or Run ends first, the error is a [*NotSyncedError]. It names each mirror
// that is not synced and why, and unwraps to these causes, such as the API's Forbidden or a
// [*NotServedError]. A mirror that fails does not delay the others.
func (c *Cluster) WaitSynced(ctx context.Context) error {
	waited := map[*shared]bool{}
	var missing []*informer.NotSyncedError
	for more := true; more; {
		more = false
		for _, m := range c.declared() {
			if waited[m] {
				continue
			}
			waited[m], more = true, true
			if e := m.waitSynced(ctx); e != nil {
				missing = append(missing, e)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &NotSyncedError{Cause: c.whyNot(missing[0].Cause), Mirrors: missing}
}

// waitSynced waits for one mirror. It ignores a mirror that has been released.
func (m *shared) waitSynced(ctx context.Context) *informer.NotSyncedError {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.wanted, func() { cancel(informer.ErrStopped) })()
	var e *informer.NotSyncedError
	if err := m.inf.WaitSynced(ctx); !errors.As(err, &e) || m.wanted.Err() != nil {
		return nil
	}
	return e
}

// whyNot adds the state of the cluster to a cause.
func (c *Cluster) whyNot(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.phase == fresh:
		return fmt.Errorf("%w: %w", ErrNotStarted, cause)
	case errors.Is(cause, informer.ErrStopped):
		return fmt.Errorf("%w: %w", ErrStopped, context.Cause(c.run))
	}
	return cause
}
