package delta

import "sync"

// line is the goroutines that wait for a change under one mutex. It replaces sync.Cond
// because a wait must also end when a context is done, without a goroutine that watches it.
// Channels are reused, so waiting does not allocate.
type line struct {
	waiting []chan struct{}
	free    []chan struct{}
}

// wait unlocks mu, waits for wake or done, and locks mu again. It may also return for
// a wake that was meant for an earlier user of the channel, so the caller checks again.
func (l *line) wait(mu *sync.Mutex, done <-chan struct{}) {
	var c chan struct{}
	if n := len(l.free); n > 0 {
		c, l.free = l.free[n-1], l.free[:n-1]
	} else {
		c = make(chan struct{}, 1)
	}
	l.waiting = append(l.waiting, c)
	mu.Unlock()
	select {
	case <-c:
	case <-done:
	}
	mu.Lock()
	for i, w := range l.waiting {
		if w == c {
			last := len(l.waiting) - 1
			l.waiting[i] = l.waiting[last]
			l.waiting = l.waiting[:last]
			break
		}
	}
	l.free = append(l.free, c)
}

// wake wakes all that wait. The mutex must be held.
func (l *line) wake() {
	for _, c := range l.waiting {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
