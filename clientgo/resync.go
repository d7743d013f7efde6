package clientgo

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn/reflector"
)

// minimumResyncPeriod is the shortest that a handler may have, as in client-go.
const minimumResyncPeriod = time.Second

// negotiate returns the resync period of a new handler, and has the informer look more
// often where it has to and still can. The caller has the informer's lock.
func (inf *sharedInformer) negotiate(logger klog.Logger, period time.Duration) time.Duration {
	if period <= 0 {
		return period
	}
	if period < minimumResyncPeriod && !inf.everySync {
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

// resyncEvery looks at the handlers in client-go's rhythm, a period after each list and after each time
// before, and not while there is a list to be made. It replays the state to those that are due.
func (inf *sharedInformer) resyncEvery(ctx context.Context, period time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-inf.core.Synced():
	}
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		status := inf.Status()
		// A list starts a new period. If one is still to come, it is soon enough to check
		// again within a period after it.
		next := period - time.Since(status.LastList)
		if next <= 0 {
			next = period
			if !listAhead(status) {
				inf.resync()
			}
		}
		timer.Reset(next)
	}
}

// listAhead reports whether a reflector is about to list, or does so.
func listAhead(s reflector.Status) bool {
	switch s.State {
	case reflector.Listing, reflector.Streaming:
		return true
	case reflector.BackingOff:
		e := (*reflector.Error)(nil)
		return errors.As(s.Cause, &e) && (e.Op != "watch" || e.Reason == reflector.Expired)
	}
	return false
}

// resync replays the state to the handlers that are due.
func (inf *sharedInformer) resync() {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	now := time.Now()
	for _, l := range inf.listeners {
		due := l.every != 0 && !now.Before(l.next)
		l.syncing.Store(due || inf.everySync)
		if due {
			l.next = now.Add(l.every)
			l.sub.Resync()
		}
	}
}
