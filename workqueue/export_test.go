package workqueue

// Shrink moves all items to new memory. Callers cannot observe it.
func (q *Queue[K]) Shrink() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shrink()
}
