// Command tarn shows what a Kubernetes API's resources are doing: it watches them, mirrors
// them, tells why they cannot be watched, and serves an API of its own to try things on.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	// What client-go has to say of its own is said by our errors.
	klog.SetLogger(logr.Discard())
	// The first signal ends the command in order; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
