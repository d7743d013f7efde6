// Command tarn watches and mirrors the resources of a Kubernetes API, diagnoses why they
// cannot be watched, and serves an API of its own for experiments.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	// Our errors already contain, escaped, what client-go and net/http would log.
	klog.SetLogger(logr.Discard())
	log.SetOutput(io.Discard)
	// The first signal shuts down cleanly, a later one kills the process. A second signal
	// within a second is ignored: it is usually the same one, delivered to both the process
	// and its group.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
