// Package object has the types that all other packages of Tarn share: keys, versions, and
// the items, events and changes that pass from the wire to the last subscriber.
//
//   - [Key] names an object: namespace and name. [Parse] reads the strict
//     "namespace/name" form; [RawKey] accepts any string and String returns it unchanged.
//   - [Version] is a resource version: opaque text that compares only where the
//     API promises an order. [Epoch] counts how often the server's
//     history was restored. [Mark] is a point in the history of one [Scope]: epoch and
//     version.
//   - [Accessor] reads key, UID, version and labels of a value, so that Kubernetes' own types
//     are not required. [Meta] is the accessor for objects with a metav1.ObjectMeta.
//   - [Item], [List] and [Event] are what a list or a watch returns; [ListOptions],
//     [WatchOptions] and [Resource] are its parameters. [Page] is the metadata of a page of a
//     list, and [Stream] an open watch.
//   - [Shard] is a part of a resource's objects by the [Hash] of their UID or namespace.
//   - [Intake] is what a source does with each object: skip it if the receiver holds it,
//     transform it, encode it.
//   - [Change] and [Batch] describe changes on their way from the reflector to the last
//     subscriber, [Kind] the type of a change, and [Sink] a receiver of them.
//   - [FieldPath] names a field to omit.
//
// The package does no I/O and holds no state. Its only dependency is
// apimachinery's metadata types.
package object
