package workqueue

// lobby is where the goroutines wait that have nothing to take.
//
// One of them is woken at a time: as long as it has not come back for the lock, nobody
// else is, and when it has taken something and there is more, it wakes the next. A
// burst of items then costs one switch where workers that are awake can take the
// rest. The invariant is: while there is something to take and somebody waits, one is
// on its way.
//
// Rejected: sync.Cond, which knows no contexts, and handing the item to a goroutine
// that waits, which makes every item cost a switch.
type lobby struct {
	waiting []chan struct{} // the last to come is the first to be woken: its stack is warm
	spare   []chan struct{} // kept, so that waiting does not allocate
	woken   int             // have been woken and have not come back
}

// wait unlocks mu, waits to be woken or for done, and locks mu again.
func (b *lobby) wait(mu *lock, done <-chan struct{}) {
	var c chan struct{}
	if n := len(b.spare); n > 0 {
		c, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		c = make(chan struct{}, 1)
	}
	b.waiting = append(b.waiting, c)
	mu.Unlock()
	wakened := true
	if done == nil {
		<-c
	} else {
		select {
		case <-c:
		case <-done:
			wakened = false
		}
	}
	mu.Lock()
	if !wakened && !b.remove(c) {
		<-c // it was woken all the same, and the channel must be empty
		wakened = true
	}
	if wakened {
		b.woken--
	}
	b.spare = append(b.spare, c)
}

func (b *lobby) remove(c chan struct{}) bool {
	for i, w := range b.waiting {
		if w == c {
			last := len(b.waiting) - 1
			b.waiting[i] = b.waiting[last]
			b.waiting = b.waiting[:last]
			return true
		}
	}
	return false
}

// wake wakes one, unless one is on its way.
func (b *lobby) wake() {
	if b.woken == 0 && len(b.waiting) > 0 {
		b.wakeOne()
	}
}

func (b *lobby) wakeAll() {
	for len(b.waiting) > 0 {
		b.wakeOne()
	}
}

func (b *lobby) wakeOne() {
	last := len(b.waiting) - 1
	c := b.waiting[last]
	b.waiting = b.waiting[:last]
	b.woken++
	c <- struct{}{}
}
