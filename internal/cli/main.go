package cli

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Tarn runs the command tarn with the arguments of this process, and exits.
func Tarn() { execute(newRoot) }

// APIServer runs the command tarn-apiserver with the arguments of this process, and exits.
func APIServer(parts ServerParts) {
	execute(func(e *env) *cobra.Command {
		root := newApiserverCommand(e, parts)
		root.Use = serverName
		e.configure(root)
		return root
	})
}

func execute(newRoot func(*env) *cobra.Command) {
	// Our errors already contain, escaped, what client-go and net/http would log.
	klog.SetLogger(logr.Discard())
	log.SetOutput(io.Discard)
	// The first signal shuts down cleanly, a later one kills the process. A second signal
	// within a second is ignored: it is usually the same one, delivered to both the process
	// and its group.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	os.Exit(run(ctx, newRoot, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
