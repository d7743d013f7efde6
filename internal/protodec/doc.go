// Package protodec decodes the protobuf form of Kubernetes API objects.
//
// [For] compiles a decoder for one Go type, once, from the struct tags that carry the
// protobuf numbers. [Decoder.Decode] then gives objects equal to those of the type's
// generated Unmarshal, on every input that one accepts, and refuses what it refuses.
// It does so with a fraction of the allocations:
//
//   - Unwanted fields ([Options].Drop) are skipped in the bytes. What is
//     skipped is not looked into, so an error in it is not found.
//   - A repeated field is counted before it is decoded, and allocated once.
//   - The strings of an object that are its own alone (name, UID, addresses) are
//     copied into one piece of memory. They keep one another alive: a string that is to
//     outlive its object should be cloned.
//   - Strings that repeat across objects come from a bounded table ([Options].Strings).
//   - Parts of objects with equal bytes (environment, probes, volumes, label and
//     resource maps of the pods of one template) are decoded once and shared
//     ([Options].Share). Objects are then read-only, all through.
//
// Whether a field's strings or parts repeat is not written down anywhere: each decoder
// learns it from what passes through, field by field, and soon stops asking where it
// is not worth it. What the object before held at the same place is tried first, since
// neighbours in a list are mostly of one template.
//
// [Peek] reads only namespace, name, UID and version, and allocates nothing.
//
// The package uses unsafe to store into fields by their offset, as a decoder without
// generated code must. Every store goes through a pointer of the field's own kind, so
// that the garbage collector sees what it needs; every other use has a line that says
// why it holds.
package protodec
