// Package conformance holds the tests that run twice: on Tarn's embedded API server and on
// a real one.
//
// There are two kinds. Those named after a case of the semantics (L01, W08, H10) run the
// wire, the reflector, the informer, the controller and client-go's interfaces on each
// server. TestAnswers sends the same requests to both and compares the responses field
// by field. Known differences of the embedded server have a line in
// docs/embedded-differences.md. A difference without a line fails, and so does a
// line without a difference.
//
// Faults that a server does not produce are injected between it and the client:
// controlplane.Proxy cuts and refuses connections, and between_test.go changes bytes of a
// response to get duplicate events, unknown types, errors in the stream, empty pages and lost
// bookmarks. The rest of the response is the server's own.
//
// # Cases that are not here
//
// Every case of the semantics is tested in this package or is in this list, which a test
// checks. The cases of the list do not depend on a server.
//
//	Q01 to Q11  the delta queue: package delta, by a model
//	S03         readers and the writer do not wait for each other: package store, concurrently
//	S04 S05     index functions that fail, many values of one object: package store
//	S06         writes to shared objects are detected: packages store and informer
//	S08         memory of old snapshots: package store
//	K01 to K07  the work queue: package workqueue, by a model; controllers here only use it
//
// Only on the real server: RBAC, tokens, certificates, and priority and fairness, which
// the embedded one does not implement.
package conformance
