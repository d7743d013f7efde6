package shard

import "time"

// timing are the durations of the protocol. See the package documentation for why they are safe.
type timing struct {
	// renew is the time between two renewals, request how long they usually take at most, and limit how long
	// any request may take.
	renew, request, limit time.Duration
	// lapse is how long after the sending of its last confirmed renewal a member may work.
	lapse time.Duration
	// expiry is how long another member must not have seen a lease change before it takes the
	// slots away.
	expiry time.Duration
	// settle is how long the set of members must not have changed before slots are moved, and
	// settleMax how long changes can put that off.
	settle, settleMax time.Duration
	// stagger is how much longer each member waits than the one before it in the order of
	// names before it writes an assignment that is due.
	stagger time.Duration
	// batch is how long slots that were released wait for others that are being drained, and an
	// assignment for others that are being moved, so that a slow hand-over does not take a request for each.
	batch time.Duration
	// abandon is after how long the lease of a member without slots that has stopped to renew it
	// is deleted.
	abandon time.Duration
	// unseen is for how long a part of a cache that was just listed can lack changes. It is that of
	// the MaxPartAge of a reflector.
	unseen time.Duration
}

func timingOf(lease time.Duration) timing {
	return timing{
		renew: lease / 3, request: lease * 2 / 15, limit: lease / 3, lapse: lease * 2 / 3, expiry: lease,
		settle: lease * 2 / 15, settleMax: lease * 2 / 3, stagger: lease * 2 / 15, batch: min(lease/6, 5*time.Second), abandon: lease * 20,
		unseen: 2 * time.Minute,
	}
}
