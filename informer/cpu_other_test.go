//go:build !unix

package informer_test

import "testing"

// cpu measures nothing where the system has no clock for it.
func cpu(*testing.B) (report func()) { return func() {} }
