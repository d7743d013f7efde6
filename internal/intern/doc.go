// Package intern shares equal strings.
//
// The objects of a cluster repeat themselves: namespaces, label keys and values, node
// names, images, condition types. A decoder that asks a [Strings] table for each of
// them holds one copy instead of one per object, and allocates nothing for a string
// that the table knows.
//
// The table is bounded whatever passes through it, and forgets: it is a help, never a
// promise. Two equal strings may still be two copies.
package intern
