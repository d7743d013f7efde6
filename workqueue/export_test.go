package workqueue

import "time"

// Sooner is what the queue asks a limiter for an item that is due after than.
func Sooner[K comparable](l Limiter[K], item K, than time.Duration) (time.Duration, bool) {
	return sooner(l, item, than)
}

// Shrink moves all items to new memory. Callers cannot observe it.
func (q *Queue[K]) Shrink() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shrink()
}
