// Package conformance holds the tests that run twice: on Tarn's embedded API server and on
// a real one.
//
// There are two kinds. Those named after a case of the semantics (L01, W08, H10) run the
// wire, the reflector, the informer, the controller and client-go's interfaces on each
// server. TestAnswers sends the same requests to both and compares what comes back, field
// by field; where the embedded server is known to answer otherwise, a line in
// docs/embedded-differences.md says so. A difference without a line fails, and so does a
// line without a difference.
package conformance
