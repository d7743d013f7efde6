package delta

import "fmt"

// Options change how a [FIFO] works. The zero Options is ready to use.
type Options[T any] struct {
	// Known is what the consumer holds: a key that is in it counts as existing,
	// so its deletion is worth telling and a list that lacks it deletes it.
	// Defaults to nil: only what is pending or being processed counts, deletions
	// of anything else are dropped, and Resync does nothing.
	//
	// Known is read with the FIFO locked and while a process function runs. It
	// must be safe for concurrent use and must not call the FIFO, nor wait for
	// anything that does.
	Known Known[T]

	// ReplacedAsSync makes Pop tell of listed items as Sync instead of Replaced,
	// for consumers older than that type. Batches always say Replaced.
	// Defaults to false.
	ReplacedAsSync bool

	// Limit bounds the pending deltas. While there are that many, a producer
	// waits until the consumer has taken some, or until Close, which gives it
	// ErrClosed. Replace and Resync are admitted whole, as if they were one delta;
	// a Replace counts as one until Pop takes it apart. What is put back is not
	// held up, nor are bookmarks. A process function must not produce into its own
	// FIFO when there is a limit: it would wait for itself.
	// Defaults to 0: no limit.
	Limit int
}

func (o Options[T]) validate() error {
	if o.Limit < 0 {
		return fmt.Errorf("delta: Limit is %d; want a positive number, or 0 for no limit", o.Limit)
	}
	return nil
}
