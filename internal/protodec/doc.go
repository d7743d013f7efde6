// Package protodec decodes the protobuf form of Kubernetes API objects.
//
// [For] compiles a decoder for one Go type, once, from the struct tags that carry the
// protobuf numbers. [Decoder.Decode] returns objects equal to those of the type's generated
// Unmarshal for every input that Unmarshal accepts, and rejects what it rejects, with a
// fraction of the allocations:
//
//   - Unwanted fields ([Options].Drop) are skipped in the bytes. They
//     are not checked, so an error in one is not found.
//   - A repeated field is counted before it is decoded, and allocated once.
//   - The strings that only one object has (name, UID, addresses) are copied into one
//     piece of memory and keep each other alive: clone a string that is to outlive its
//     object.
//   - Strings that repeat across objects come from a bounded table ([Options].Strings).
//   - Parts of objects with equal bytes (environment, probes, volumes, label and
//     resource maps of the pods of one template) are decoded once and shared
//     ([Options].Share). Objects are then read-only.
//
// Each decoder learns, field by field, whether strings or parts repeat, and stops looking
// them up where they do not. It first compares with what the previous object held in the
// same place, because neighbours in a list mostly have one template.
//
// [Peek] reads only namespace, name, UID and version, and allocates nothing.
//
// The package uses unsafe to store into fields by their offset, as a decoder without
// generated code must. Every store goes through a pointer of the field's own kind, so
// that the garbage collector sees what it needs; a comment at every other use
// says why it is valid.
package protodec
