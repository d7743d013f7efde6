// Package rules tests the alert rules and the dashboard in docs/operating with the parser and the
// engine of Prometheus, on written series and on what programs export. It is a module of its own, so
// that programs that use Tarn do not depend on Prometheus.
//
//	go test .
package rules
