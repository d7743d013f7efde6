package controller

// Unseen returns of how many keys writes are remembered.
func (c *Client[T, W, P, D]) Unseen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.marks)
}
