package clientgo

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// minimumResyncPeriod is the shortest that a handler may have, as in client-go.
const minimumResyncPeriod = time.Second

// negotiate returns the resync period of a new handler, and has the informer look more
// often where it has to and still can. The caller has the informer's locks.
func (inf *informer) negotiate(logger klog.Logger, period time.Duration) time.Duration {
	if period <= 0 {
		return period
	}
	if period < minimumResyncPeriod {
		logger.Info("Warning: resync period is too small. Changing it to the minimum allowed value", "resyncPeriod", period, "minimumResyncPeriod", minimumResyncPeriod)
		period = minimumResyncPeriod
	}
	if period >= inf.checkPeriod {
		return period
	}
	if inf.started {
		logger.Info("Warning: resync period is smaller than resync check period and the informer has already started. Changing it to the resync check period", "resyncPeriod", period, "resyncCheckPeriod", inf.checkPeriod)
		return inf.checkPeriod
	}
	inf.checkPeriod = period
	for _, l := range inf.listeners {
		l.every = granted(logger, l.wanted, period)
	}
	return period
}

// granted returns the period that a handler gets of an informer that looks at its handlers
// every so often.
func granted(logger klog.Logger, wanted, check time.Duration) time.Duration {
	switch {
	case wanted == 0:
		return 0
	case check == 0:
		logger.Info("Warning: the specified resyncPeriod is invalid because this shared informer doesn't support resyncing", "desired", wanted)
		return 0
	case wanted < check:
		logger.Info("Warning: the specified resyncPeriod is being increased to the minimum resyncCheckPeriod", "desired", wanted, "resyncCheckPeriod", check)
		return check
	}
	return wanted
}

// resyncEvery looks at the handlers every so often, from when the first list is there, and
// tells those that are due the state again.
func (inf *informer) resyncEvery(ctx context.Context, period time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-inf.synced:
	}
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if inf.due() {
			inf.resync()
		}
		timer.Reset(period)
	}
}

// due finds out which handlers are to be resynced now, and reports whether any is.
func (inf *informer) due() bool {
	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	now, any := time.Now(), false
	for _, l := range inf.listeners {
		l.syncing = l.every != 0 && !now.Before(l.next)
		if l.syncing {
			any = true
			l.next = now.Add(l.every)
		}
	}
	return any
}
