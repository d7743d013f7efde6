// Command migrate runs one of three versions of a controller that prints the phases of pods: the
// one for client-go, the same one with Tarn's informer, and the one for Tarn.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/examples/migrate/before"
	"github.com/tarnproject/tarn/examples/migrate/native"
)

var versions = map[string]func(ctx context.Context, config *rest.Config, namespace string, out io.Writer) error{
	"before": before.NewInformer(cache.NewInformerWithOptions).Run,
	"dropin": before.NewInformer(clientgo.NewInformerWithOptions).Run,
	"native": native.Run,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 || versions[args[0]] == nil {
		return errors.New("specify a version (before, dropin or native) and a namespace")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	return versions[args[0]](ctx, config, args[1], os.Stdout)
}
