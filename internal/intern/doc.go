// Package intern shares equal strings and equal parts of objects.
//
// The objects of a cluster repeat themselves: namespaces, label keys and values, node
// names and images, and whole volumes, tolerations and label maps of the pods of one
// template. A decoder that looks them up in a [Strings] and a [Parts] holds one copy
// instead of one per object, and allocates nothing for what the tables hold.
//
// Both are bounded whatever passes through them, and evict: two equal strings may still
// be two copies.
package intern
