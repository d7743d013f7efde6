package workqueue

// Shrink moves everything to new memory, which changes nothing that a caller can see.
func (q *Queue[K]) Shrink() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shrink()
}
