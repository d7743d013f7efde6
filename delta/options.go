package delta

import "fmt"

// Options change how a [FIFO] works. The zero Options is ready to use.
type Options[T any] struct {
	// Known is the state that the consumer holds. Its keys exist: their deletions are queued,
	// and a list without them deletes them. Defaults to nil: only pending and in-flight keys
	// exist, deletions of others are dropped, and Resync does nothing.
	//
	// Known is read with the FIFO locked and while a process function runs. It
	// must be safe for concurrent use and must not call the FIFO, nor wait for
	// anything that does.
	Known Known[T]

	// ReplacedAsSync makes Pop return listed items as Synced instead of Replaced, as older
	// versions of client-go's DeltaFIFO do. Batches always have Replaced. Defaults to false.
	ReplacedAsSync bool

	// Verbatim keeps every change as the producer sends it: a deletion is queued whatever is
	// known of its key, and two deletions in a row are two. Defaults to false: deletions of
	// unknown keys and stale ones are dropped, and consecutive ones merged.
	Verbatim bool

	// Limit bounds the pending deltas. When it is reached, a producer blocks until the
	// consumer has taken some, or until Close, after which it gets ErrClosed. A Replace or
	// Resync is admitted as a whole, as one delta; a Replace counts as one until Pop expands
	// it. Requeued deltas and bookmarks are not limited. With a limit, a process function must
	// not produce into its own FIFO: it would deadlock.
	// Defaults to 0: no limit.
	Limit int
}

func (o Options[T]) validate() error {
	if o.Limit < 0 {
		return fmt.Errorf("delta: Limit is %d; want a positive number, or 0 for no limit", o.Limit)
	}
	return nil
}
