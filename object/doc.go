// Package object holds the nouns that every other package of Tarn speaks of:
// what an object is called, which version of it one has, and the shapes in which
// objects travel from the wire to the store.
//
//   - [Key] names an object: namespace and name. [Parse] reads the strict
//     "namespace/name" form; [RawKey] takes any string and gives it back unchanged.
//   - [Version] is a resource version: opaque text that compares only where the
//     API promises an order. [Epoch] counts how often that order started anew.
//     [Mark] is a point in the history of one [Scope]: epoch and version.
//   - [Accessor] tells how to read key, UID, version and labels of a value, so
//     that nothing here or above requires Kubernetes' own types. [Meta] is the
//     accessor for everything that has a metav1.ObjectMeta.
//   - [Item], [List] and [Event] are what a list or a watch yields; [ListOptions]
//     and [WatchOptions] are what one asks for; [Resource] says of what. A [Page]
//     closes a list, a [Stream] is an open watch, and [Held] says what need not
//     be decoded.
//   - [FieldPath] leads to a field that is to be left out.
//
// The package does no I/O and holds no state. Its only dependency is
// apimachinery's metadata types.
package object
