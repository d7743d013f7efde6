// Package request parses what clients send. [Request] is a request for a resource: its path, verb and
// negotiated representation, its body and its options.
package request
