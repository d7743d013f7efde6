// Package jsondec reads the JSON of an API server: it splits streams into objects,
// reads an object's identity from its bytes, and decodes it.
//
//   - [Scanner] splits the body of a list into its members and its items while it
//     arrives, one item in memory at a time.
//   - [Frames] splits a watch stream into events, [SplitEvent] an event into its type
//     and its object.
//   - [Peek] reads an [Identity], namespace, name, UID and version, from an object's
//     bytes without decoding it.
//   - [Decoder] decodes one object into a Go struct or an unstructured object.
//     [Options] says which fields are left out and which tables repeating strings and
//     sub-objects are taken from: an intern.Strings and an intern.Parts.
//
// # Equal to apimachinery
//
// A Decoder returns what sigs.k8s.io/json returns, on which apimachinery's serializer and
// its UnstructuredJSONScheme are built, and rejects what they reject. Its fast path handles
// only ordinary input. A document with anything unusual (a duplicate field, a value of the
// wrong type, broken syntax, a number out of range) is passed to sigs.k8s.io/json as a
// whole. So the fast path has to be right only about what it accepts, and errors have the
// texts that users know.
//
// # How it decodes
//
// Two passes. The first checks the syntax and writes one token for each value:
// where it starts and ends, how many members it has, which token follows it. The
// second walks the tokens with a decoder that was compiled for the type. It knows the
// extent and size of everything beforehand: slices and maps are allocated once,
// unwanted fields cost one step, and a sub-object can be looked up by its bytes before
// it is decoded.
//
// Streaming a list:
//
//	sc := jsondec.NewScanner(body, limit)
//	for {
//		part, err := sc.Next()
//		if err == io.EOF {
//			break // the list is complete
//		} else if err != nil {
//			return err
//		}
//		switch part.Member {
//		case jsondec.Item: // part.Raw is one item, valid until the next call
//		case jsondec.Metadata: // part.Raw is {"resourceVersion": …, "continue": …}
//		case jsondec.Kind, jsondec.APIVersion: // part.Text()
//		}
//	}
package jsondec
