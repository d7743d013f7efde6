// Package standin has the private names of client-go that its tests of informers use. The harness compiles this file
// into the package of the tests, so that they reach them.
package standin

import "sync/atomic"

// sharedProcessorRunHook delays the start of client-go's handlers in one test, which is left out.
// Nothing calls it here.
var sharedProcessorRunHook atomic.Pointer[func()]
