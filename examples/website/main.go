// Command website is a complete operator: it runs a Deployment and a Service for each Website,
// registers its host name, reports its status, and cleans up when it is deleted.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller/leader"
)

func main() {
	listen := flag.String("listen", ":8080", "address of metrics and health checks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, flag.Args()); err != nil {
		slog.Error("website", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, args []string) error {
	cluster, err := tarn.Connect(tarn.WithFieldManager("website"), tarn.WithNamespace("website-system"), tarn.WithLeaderElection("website", leader.Options{}))
	if err != nil {
		return err
	}
	if err := addController(cluster, logDNS{}); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "rbac" {
		fmt.Print(cluster.RBAC())
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return cluster.Run(ctx) })
	group.Go(func() error { return cluster.Serve(ctx, listen) })
	return group.Wait()
}

// logDNS stands for the API of a DNS provider.
type logDNS struct{}

func (logDNS) Set(_ context.Context, host string, present bool) error {
	slog.Info("DNS", "host", host, "present", present)
	return nil
}
