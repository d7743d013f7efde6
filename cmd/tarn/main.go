// Command tarn shows what a Kubernetes API's resources are doing: it watches them, mirrors
// them, tells why they cannot be watched, and serves an API of its own to try things on.
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
	// What client-go and net/http log by themselves is in our errors, where it is escaped.
	klog.SetLogger(logr.Discard())
	log.SetOutput(io.Discard)
	// The first signal ends the command in order. One that comes much later ends the
	// process; one that comes at once is the same one, sent to the process and its group.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
