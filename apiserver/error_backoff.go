package apiserver

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// init removes the rate limit from apimachinery's error handlers, which client-go and
// controller-runtime call. It compares the time of a testing/synctest bubble with that of the
// process or of an earlier bubble, so a program in a bubble would sleep for years at its first
// error.
func init() {
	if handlers := utilruntime.ErrorHandlers; len(handlers) == 2 { // logs and limits, unless a program changed them
		utilruntime.ErrorHandlers = handlers[:1]
	}
}
