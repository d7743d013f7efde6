// Package conformance holds the tests that run twice: on Tarn's embedded API server and on
// a real one.
//
// There are two kinds. Those named after a case of the semantics (L01, W08, H10) run the
// wire, the reflector, the informer, the controller and client-go's interfaces on each
// server. TestAnswers sends the same requests to both and compares what comes back, field
// by field; where the embedded server is known to answer otherwise, a line in
// docs/embedded-differences.md says so. A difference without a line fails, and so does a
// line without a difference.
//
// What a server does not do by itself is put between a real answer and the client: a
// connection that is cut or refused (controlplane.Proxy), or an answer of which some bytes
// are changed on the way (between_test.go): events twice, of unknown types, errors in the
// stream, empty pages, bookmarks that are lost. The rest of the answer is the server's own.
//
// # Cases that are not here
//
// Every case of the semantics is tested in this package or is in this list, and a test holds
// the list to that. The cases of the list have no server in them: nothing that one answers
// could make them come out differently.
//
//	Q01 to Q11  the delta queue: package delta, by a model
//	S03         readers and the writer do not wait for each other: package store, concurrently
//	S04 S05     index functions that fail, many values of one object: package store
//	S06         who writes to shared objects is found: packages store and informer
//	S08         memory of old snapshots: package store
//	K01 to K07  the work queue: package workqueue, by a model; controllers here only use it
//
// On the real server alone are RBAC, tokens, certificates, and priority and fairness, which
// the embedded one does not have.
package conformance
