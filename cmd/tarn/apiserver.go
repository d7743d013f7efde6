package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/hostcheck"
)

// apiserverFlags are those of tarn apiserver.
type apiserverFlags struct {
	listen    string
	remote    bool
	hosts     []string
	tls       bool
	out       string
	overwrite bool
	seed      string
	objects   int
	churn     float64
	faults    []string
	admin     bool
}

func newApiserverCommand(e *env) *cobra.Command {
	var flags apiserverFlags
	cmd := &cobra.Command{
		Use:   "apiserver",
		Short: "Serve a Kubernetes API to try things on",
		Long: `Serve the embedded Kubernetes API until interrupted. It lists, watches and stores objects
as a real API server does. Objects are kept in memory and lost when it ends.

Clients are not authenticated, so the server listens on this machine only and refuses
requests from web pages: those with a Host that is not this machine, and cross-site writes.
Other machines need --allow-remote, and --allow-host for the name they use.

No controllers and no kubelet run. Deployments create no pods, and a deleted pod on a node
stays Terminating until it is forced: kubectl delete pod NAME --grace-period=0 --force.

The server writes a kubeconfig for its clients, by default to a temporary file that it
removes when it ends. It does not change your own kubeconfig.

--seed loads the YAML and JSON files of a directory: CustomResourceDefinitions first, then
namespaces, then all other objects. The files may have 64 MiB together. --objects creates a
generated cluster, and --churn keeps changing it.

--faults alone makes one request in ten fail at random; --faults=random:0.5:7 sets the share
and the seed. --faults=KIND[,resource=R][,verb=V][,times=N][,after=N][,wait=D] injects one
fault, and may be repeated. The kinds are those of the package apiserver: cut-watch,
gone-event, too-many-requests, internal-error, latency, stall, ...`,
		Example: `  tarn apiserver                                        # an empty cluster
  tarn apiserver --seed ./manifests --kubeconfig-out ./dev.kubeconfig
  tarn apiserver --objects 500 --churn 5                # something to watch
  tarn apiserver --tls --listen 127.0.0.1:6443
  tarn apiserver --listen 0.0.0.0:8080 --allow-remote --allow-host dev.example
  tarn apiserver --faults=cut-watch,resource=pods,after=10`,
		Args: faultArgs(&flags.faults),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveAPI(cmd.Context(), e, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "127.0.0.1:0", "the `address` to serve on; port 0 is any that is free")
	f.BoolVar(&flags.remote, "allow-remote", false, allowRemote)
	addHosts(f, &flags.hosts)
	f.BoolVar(&flags.tls, "tls", false, "serve HTTPS, with a certificate made for the occasion")
	f.StringVar(&flags.out, "kubeconfig-out", "", "the `file` to write the kubeconfig to (default a temporary one)")
	f.BoolVar(&flags.overwrite, "overwrite", false, "let --kubeconfig-out replace a file that tarn did not write")
	f.StringVar(&flags.seed, "seed", "", "a `directory` of YAML files to load, or one file")
	f.IntVar(&flags.objects, "objects", 0, "fill it with a made-up cluster of about so many objects")
	f.Float64Var(&flags.churn, "churn", 0, "how many of these objects change in a second")
	f.BoolVar(&flags.admin, "admin", false, "serve faults and compaction over HTTP, below /tarn/")
	addFaults(f, &flags.faults)
	return cmd
}

func (f *apiserverFlags) check() error {
	if err := checkListen(f.listen, f.remote, "127.0.0.1:8080"); err != nil {
		return err
	}
	if err := checkChurn(f.churn); err != nil {
		return err
	}
	switch {
	case f.objects < 0:
		return usagef("--objects must not be negative")
	case f.churn > 0 && f.objects == 0:
		return usagef("--churn changes the objects of --objects; say how many")
	}
	return nil
}

// checkListen returns what is wrong with the address of a server without authentication.
func checkListen(address string, remote bool, example string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return usagef("--listen %q is not an address; write it as %s", address, example)
	case !remote && !hostcheck.Loopback(host):
		return usagef("--listen %s can be reached from other machines, and clients are not authenticated; add --allow-remote to permit it", address)
	}
	return nil
}

// serveAPI serves until the context ends.
func serveAPI(ctx context.Context, e *env, flags apiserverFlags) (err error) {
	if err := flags.check(); err != nil {
		return err
	}
	faults, err := parseFaults(flags.faults)
	if err != nil {
		return err
	}
	starting := e.busy("loading and creating objects")
	defer starting()
	seeds, err := interruptible(ctx, func() ([]seed, error) { return readSeed(ctx, flags.seed) })
	if err != nil {
		return err
	}
	server, err := apiserver.New(apiserver.Options{
		Address: flags.listen, AllowedHosts: flags.hosts, TLS: flags.tls, CollectGarbage: true, Admin: flags.admin, Logger: e.log,
	})
	if err != nil {
		return listenError(flags.listen, err)
	}
	defer func() {
		if err != nil {
			_ = server.Close() // what went wrong before is worth more
		}
	}()
	if err := plant(ctx, server, seeds); err != nil {
		return err
	}
	var churn *demoChurn
	if flags.objects > 0 {
		world, err := newDemoCluster(ctx, server, flags.objects, 1)
		if err != nil {
			return err
		}
		churn = newDemoChurn(world, flags.churn)
	}
	cfg := server.Config()
	address := reachable(flags.listen, server.Addr())
	cfg.Host = strings.TrimSuffix(cfg.Host, server.Addr().String()) + address
	file, err := writeKubeconfig(cfg, flags.out, flags.overwrite)
	if err != nil {
		return err
	}
	defer file.remove()
	if err := faults.inject(server); err != nil {
		return err
	}
	starting()
	fmt.Fprint(e.out, greeting(e.program, cfg.Host, file.path, len(seeds), flags, faults)+elsewhere(cfg.Host, flags.remote, flags.hosts))
	if err := e.out.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	churned := make(chan error, 1)
	go func() {
		churned <- churn.run(ctx)
		cancel()
	}()
	served := server.Run(ctx)
	cancel()
	return errors.Join(served, <-churned)
}

// greeting says where the server is and how to use it.
func greeting(program, address, kubeconfig string, seeds int, flags apiserverFlags, faults faultSpec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Serving a Kubernetes API on %s; clients are not authenticated, and nothing is kept.\n", address)
	if seeds > 0 {
		fmt.Fprintf(&b, "Loaded %s of %s.\n", counted(seeds, "object"), flags.seed)
	}
	if flags.objects > 0 {
		fmt.Fprintf(&b, "Made up a cluster of about %s; %g of them change in a second.\n", counted(flags.objects, "object"), flags.churn)
	}
	if text := faults.String(); text != "" {
		fmt.Fprintf(&b, "Faults: %s.\n", text)
	}
	if flags.admin {
		fmt.Fprintf(&b, "Faults on demand: curl -X POST '%s/tarn/cut?resource=pods'\n", address)
	}
	fmt.Fprintf(&b, "\nTo use it:\n\n  export KUBECONFIG=%s\n\nand then, say: %s watch pods -A, or kubectl get namespaces. Ctrl-C ends it.\n", shellWord(kubeconfig), program)
	return b.String()
}

// shellWord quotes a path where a shell would take it apart.
func shellWord(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+:@%") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// listenError says in one sentence why an address cannot be listened on.
func listenError(address string, err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the address %s is in use; choose another with --listen, or port 0 for any", address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the address %s may not be used; choose a port above 1023 with --listen", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return usagef("the address %s is none of this machine's; choose another with --listen", address)
	case errors.As(err, &op):
		return usagef("the address %s cannot be used: %s", address, lastOf(op))
	}
	return err
}
