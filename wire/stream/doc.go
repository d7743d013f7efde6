// Package stream lists and watches resources and decodes the objects while they arrive.
//
//	list, page, err := stream.List(ctx, pods, object.ListOptions{}) // pods is a *wire.API
//	events, err := stream.Watch(ctx, pods, object.WatchOptions{Version: page.Version})
//
// [List] and [Watch] are for a program that needs objects once. A mirror uses a [Source],
// which a reflector runs:
//
//   - [Source] lists and watches one selection of a resource. [NewSource] creates one.
//   - [Options] say which fields it drops and whether its objects may share memory.
//
// A Source never buffers a whole response. It reads the key, UID and version of each object
// from the encoded bytes first and does not decode an object that the receiver already holds.
// It decodes the others on all cores and delivers them in the server's order. Objects of the
// same template share the parts that are encoded alike.
//
// # How it reads
//
//	response body
//	   │
//	listReader, frameReader   split the body into objects or watch frames
//	   │
//	codec.peek                key, UID, version: is it held already?
//	   │
//	window, watch             decode on several cores, deliver in order
//	   │
//	sink, Next
//
// There is one codec for protobuf and one for JSON. The decoders of objects are in
// internal/protodec and internal/jsondec.
package stream
