// Package mvcc holds the multi-version structures under package store. It knows keys, ids,
// revisions and untyped values; it does not know objects, indexes or resource versions.
//
// # The nouns
//
//   - [History] publishes revisions. A reader pins the current one and sees it unchanged until
//     it unpins. What no pinned revision sees is dropped at the next publication or sweep.
//   - [State] is one published revision.
//   - [Map] has a record for each key: an id, the newest value, and a chain of the older values
//     that pinned revisions see. A key is found by a hash lookup, by its namespace, or by its id.
//   - [Postings] has the ids of each value of an index, in [Members].
//   - [Value] is what a Map stores: a pointer whose type the Map's user knows.
//
// Inside, Map and Postings share [table], a hash table from hashes to ids, and [cells], a set of
// ids that readers iterate while the writer changes it.
//
// # Who may write, and when
//
// There is one writer at a time; the store's lock ensures it. It prepares revision r+1 in the
// structures and then publishes it with one atomic store. Everything that it changes before that
// has the stamp r+1, and readers of r pass over it.
//
// Readers take no lock and never wait. A field is either atomic, or not written after a reader can
// reach it, or marked "Writer only". Readers load in the order that the type's comment gives.
//
//	History   state r=9, current;  state r=4, pinned by two readers
//	Map       key ─hash─▶ id ──▶ record r=9 ──▶ older version r=4
//	Postings  value ─hash─▶ number ──▶ members: ids
//
// There is one table, one set of ids for each namespace and one for each index value, not one for
// each revision. They have every id that some revision sees, and a reader leaves out those that
// its own does not.
//
// # Order
//
// Nothing is kept in order. [State.Sorted] sorts the keys of a revision when a reader asks, and
// [Postings.Values] the values of an index. Both keep the result.
//
// # Dropping
//
// A version is visible to revisions from its own up to, not including, that of its successor.
// When it is superseded it is put on the list of the newest pinned state that sees it. When that
// state loses its last pin, the version moves to the next older pinned state that sees it, or is
// unlinked if there is none. So exactly what some pin sees is retained.
//
// Memory belongs to the garbage collector, so a reader without a pin is never unsafe. It may only
// miss a version that was unlinked meanwhile; [Map.Find] reports when it has to search again.
//
// docs/decisions/0003-store-structure.md has the measurements and the rejected alternatives.
package mvcc
