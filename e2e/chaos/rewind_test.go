package chaos

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/e2e/patience"
)

// lost is how many versions a rewind takes back at the least: more than the servers write
// by themselves when they start.
const lost = 300

// backUp keeps etcd's state for the next rewind, in the place of the one before.
func (r *run) backUp(ctx context.Context) error {
	if r.backup != nil {
		if err := r.backup.Remove(); err != nil {
			return err
		}
	}
	var err error
	r.backup, err = r.site.plane.Snapshot(ctx)
	return err
}

// rewind restores the backup, so that versions are given out a second time, and waits until
// every mirror has noticed and has what the server has now.
//
// The server accepts a watch from a version that it has not reached and sends nothing, so
// only a list shows that versions went back. If no client lists until the server has passed
// the versions seen before, the changes in between cannot be detected (W19). So the writers
// are paused, and watches are cut off at the same version until their reflectors list.
func (r *run) rewind(ctx context.Context) error {
	if err := r.site.moveTo(ctx, r.backup.Revision+lost); err != nil {
		return err
	}
	r.writers.pause.Lock()
	defer r.writers.pause.Unlock()
	// All have seen what will not have happened.
	if err := r.same(true, form.holds); err != nil {
		return err
	}
	seen, err := r.site.plane.Revision(ctx)
	if err != nil {
		return err
	}
	rewinds := r.rewinds.Add(1)
	if err := r.site.plane.Restore(ctx, r.backup); err != nil {
		return err
	}
	for _, f := range r.forms {
		if err := f.renew(); err != nil {
			return err
		}
	}
	if err := r.notice(ctx, rewinds); err != nil {
		return err
	}
	if err := r.same(true, form.holds); err != nil {
		return err
	}
	now, err := r.site.plane.Revision(ctx)
	if err != nil {
		return err
	}
	if now >= seen {
		return fmt.Errorf("revision %d was seen before the rewind, and is %d after it", seen, now)
	}
	r.takenBack = append(r.takenBack, seen-now)
	return r.backUp(ctx)
}

// notice cuts watches off until every source has noticed so many rewinds.
func (r *run) notice(ctx context.Context, rewinds int64) error {
	return patience.For(ctx, "every mirror to notice that versions went back", func() error {
		var unaware, watching int
		for _, f := range r.forms {
			n, m := f.unaware(rewinds)
			unaware, watching = unaware+n, watching+m
		}
		if unaware == 0 {
			return nil
		}
		if watching == unaware { // so that no list is cut off
			for _, p := range r.site.proxies {
				p.Cut()
			}
		}
		return fmt.Errorf("%d sources have not, %d of them watch", unaware, watching)
	})
}
