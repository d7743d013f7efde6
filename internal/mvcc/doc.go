// Package mvcc holds the multi-version structures under the store: records with chains of
// older versions, found by key or by id, an ordered set of keys, the members of index
// values, and the history that publishes revisions and knows who can still see which.
//
// # One writer, any number of readers
//
// The writer prepares the versions of revision r+1 on top of the chains and then
// publishes r+1 with a single atomic store. A reader loads the published state and
// takes, in every chain, the newest version not after it; what the writer is
// preparing meanwhile is newer and is passed over. Readers take no lock and are never
// waited for. The writer's methods must be called by one goroutine at a time.
//
//	History   state r=9, current;  state r=4, pinned by two readers
//	Map       key ─hash─▶ id ──▶ record r=9 ──▶ older version r=4
//	Order     the ids of all keys, sorted
//	Postings  value ─hash─▶ members: ids
//
// Order and Postings exist once, not once for each revision: they hold every id that some
// revision can see, and a reader leaves out what his does not. So an insertion changes
// one place and copies no path.
//
// # Reclaiming
//
// A version is visible to revisions from its own up to, not including, that of its
// successor. When it is superseded it goes on the retire list of the newest pinned
// state that can see it, and is unlinked from its chain at once where there is none.
// When a pin goes, what stands on its list moves to the next older pin that can see
// it, or is unlinked. So what is retained is exactly what some pin can see.
//
// Memory is the garbage collector's, so a reader without a pin is never unsafe. It may
// only miss what was unlinked under it; [Map.Find] tells such a reader when to look
// again.
//
// # What was measured and rejected
//
// See docs/decisions: persistent trees of objects, persistent sets of ids behind a root
// for each revision, and entries as objects of their own.
package mvcc
