package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/hostcheck"
)

// ServerParts are the parts of the API server that only tarn-apiserver links: they are half of
// its size and of the time to build it.
type ServerParts struct {
	Schemas apiserver.Schemas
	// Workloads returns the stand-ins for controllers, scheduler and kubelet.
	Workloads func(*rest.Config, *slog.Logger) (interface{ Run(context.Context) error }, error)
}

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
	workloads bool
	garbage   bool
	namespace bool
	roles     bool
	none      bool // of the controllers
	rbac      bool
	accounts  []string
	strict    bool
}

const apiserverShort = "Serve a Kubernetes API for experiments"

func newApiserverCommand(e *env, parts ServerParts) *cobra.Command {
	var flags apiserverFlags
	cmd := &cobra.Command{
		Use:   "apiserver",
		Short: apiserverShort,
		Long: `Serve the embedded Kubernetes API until interrupted. It lists, watches and stores objects
like a real API server, in memory only: they are lost when it stops.

Without --rbac, clients are not authenticated and may do everything. The server therefore
listens on loopback and rejects requests with an unknown Host header as well as cross-origin
writes from browsers. Access from other machines needs --allow-remote, and --allow-host for
the name they use.

With --rbac, the server evaluates the stored roles and bindings. The kubeconfig is that of an
administrator, who can impersonate others (kubectl --as). --service-account NAMESPACE/NAME adds
a context of that name, for a program that is to run with the permissions of its manifests.

Of the controllers of a cluster, those run that clean up: objects whose owner is deleted are
deleted (--garbage-collection), as is the content of a deleted namespace (--namespace-deletion),
and aggregated ClusterRoles have the rules that they select (--role-aggregation). With
--no-controllers none runs, as with envtest.

No other controllers or kubelets run. Deployments create no pods, and a deleted pod on a node
stays Terminating until it is forced: kubectl delete pod NAME --grace-period=0 --force.
With --workloads, stand-ins for them run: Deployments, StatefulSets, DaemonSets, Jobs and
CronJobs get pods, and pods become Ready on a node although no container runs.

The server writes a kubeconfig for its clients, by default to a temporary file that it
removes when it stops. It does not change your own kubeconfig.

Built-in kinds are defaulted and validated as by kube-apiserver. --strict=false stores them as
clients send them.

--seed loads the YAML and JSON files of a directory: CustomResourceDefinitions first, then
namespaces, then all other objects, up to 64 MiB in total. It skips kustomizations. --objects
generates a cluster, and --churn keeps changing it.

--faults alone makes 10 % of requests fail at random; --faults=random:0.5:7 sets the rate
and the seed. --faults=KIND[,resource=R][,verb=V][,times=N][,after=N][,wait=D] injects one
fault, and may be repeated. The kinds are those of package apiserver: cut-watch,
gone-event, too-many-requests, internal-error, latency, stall, ...`,
		Example: `  tarn apiserver                                        # an empty cluster
  tarn apiserver --seed ./manifests --kubeconfig-out ./dev.kubeconfig
  tarn apiserver --workloads                            # pods become Ready
  tarn apiserver --no-controllers                       # as envtest
  tarn apiserver --objects 500 --churn 5                # something to watch
  tarn apiserver --seed ./manifests --rbac --service-account shop/operator
  tarn apiserver --tls --listen 127.0.0.1:6443
  tarn apiserver --listen 0.0.0.0:8080 --allow-remote --allow-host dev.example
  tarn apiserver --faults=cut-watch,resource=pods,after=10`,
		Args: faultArgs(&flags.faults),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveAPI(cmd.Context(), e, parts, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "127.0.0.1:0", "the `address` to listen on; port 0 picks a free port")
	f.BoolVar(&flags.remote, "allow-remote", false, "allow --listen on an address that other machines can reach, without authentication")
	f.StringSliceVar(&flags.hosts, "allow-host", nil, "a host `name` that clients may use, in addition to localhost and the --listen address")
	f.BoolVar(&flags.tls, "tls", false, "serve HTTPS with a generated certificate")
	f.StringVar(&flags.out, "kubeconfig-out", "", "the `file` to write the kubeconfig to (default a temporary file)")
	f.BoolVar(&flags.overwrite, "overwrite", false, "allow --kubeconfig-out to replace a file that tarn did not write")
	f.StringVar(&flags.seed, "seed", "", "a `directory` of YAML files to load, or one file")
	f.IntVar(&flags.objects, "objects", 0, "generate a cluster of about this many objects")
	f.Float64Var(&flags.churn, "churn", 0, "writes per second to the generated objects")
	f.BoolVar(&flags.workloads, "workloads", false, "run stand-ins for controllers, scheduler and kubelet")
	f.BoolVar(&flags.garbage, "garbage-collection", true, "delete objects whose owners do not exist")
	f.BoolVar(&flags.namespace, "namespace-deletion", true, "delete the content of deleted namespaces, and then these")
	f.BoolVar(&flags.roles, "role-aggregation", true, "with --rbac, add the rules that they select to aggregated ClusterRoles")
	f.BoolVar(&flags.none, "no-controllers", false, "run no controllers, as envtest")
	f.BoolVar(&flags.rbac, "rbac", false, "authenticate clients and evaluate roles and bindings; implies --tls")
	f.StringArrayVar(&flags.accounts, "service-account", nil, "add a context for the ServiceAccount `namespace/name` to the kubeconfig; may be repeated")
	f.BoolVar(&flags.strict, "strict", true, "apply kube-apiserver's defaults and validation to built-in kinds")
	f.BoolVar(&flags.admin, "admin", false, "serve fault injection and compaction under /tarn/")
	addFaults(cmd, &flags.faults)
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
		return usagef("--churn requires --objects")
	case f.none && f.workloads:
		return usagef("--no-controllers excludes --workloads")
	}
	for _, account := range f.accounts {
		if namespace, name, _ := strings.Cut(account, "/"); namespace == "" || name == "" {
			return usagef("invalid --service-account %q: must be namespace/name", account)
		}
	}
	return nil
}

// checkListen validates the listen address of a server without authentication.
func checkListen(address string, remote bool, example string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return usagef("invalid --listen %q: must be host:port, such as %s", address, example)
	case !remote && !hostcheck.Loopback(host):
		return usagef("--listen %s is reachable from other machines and clients are not authenticated; add --allow-remote to allow that", address)
	}
	return nil
}

// serveAPI serves until ctx ends.
func serveAPI(ctx context.Context, e *env, parts ServerParts, flags apiserverFlags) (err error) {
	if err := flags.check(); err != nil {
		return err
	}
	faults, err := parseFaults(flags.faults)
	if err != nil {
		return err
	}
	starting := e.busy("loading and creating objects")
	defer starting()
	seeds, err := interruptible(ctx, func() ([]runtime.Object, error) { return readSeed(ctx, flags.seed) })
	if err != nil {
		return err
	}
	// Clients send a token of a kubeconfig only over HTTPS, so RBAC needs TLS.
	server, err := apiserver.New(apiserver.Options{
		Address: flags.listen, AllowedHosts: flags.hosts, TLS: flags.tls || flags.rbac, Admin: flags.admin, Logger: e.log,
		Schemas: parts.Schemas, RBAC: flags.rbac, Strict: flags.strict,
		CollectGarbage: flags.garbage, KeepNamespaces: !flags.namespace, NoRoleAggregation: !flags.roles, NoControllers: flags.none,
	})
	if err != nil {
		return listenError(flags.listen, err)
	}
	defer func() {
		if err != nil {
			_ = server.Close() // the earlier error matters more
		}
	}()
	if err := createSeeds(ctx, server, seeds); err != nil {
		return err
	}
	var generated *demoCluster
	if flags.objects > 0 {
		if generated, err = newDemoCluster(ctx, server, flags.objects, 1); err != nil {
			return err
		}
	}
	var stand interface{ Run(context.Context) error }
	if flags.workloads {
		if stand, err = parts.Workloads(server.MemoryConfig(), e.log); err != nil {
			return err
		}
	}
	cfg := server.Config()
	users := map[string]*rest.Config{kubeconfigEntry: cfg}
	for _, account := range flags.accounts {
		namespace, name, _ := strings.Cut(account, "/")
		if users[account], err = server.ServiceAccountConfig(namespace, name); err != nil {
			return usagef("--service-account %s: %s", account, reason(err))
		}
	}
	file, err := writeKubeconfig(users, flags.out, flags.overwrite)
	if err != nil {
		return err
	}
	defer file.remove()
	if err := faults.inject(server); err != nil {
		return err
	}
	starting()
	fmt.Fprint(e.out, greeting(e.program, cfg.Host, file.path, len(seeds), flags, faults)+remoteHint(cfg.Host, flags.remote, flags.hosts))
	if err := e.out.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A part that ends without being asked to ends the others.
	ended := make(chan error, 2)
	go func() {
		ended <- generated.churn(ctx, flags.churn)
		cancel()
	}()
	go func() {
		if stand == nil {
			ended <- nil
			return
		}
		ended <- stand.Run(ctx)
		cancel()
	}()
	served := server.Run(ctx)
	cancel()
	return errors.Join(served, <-ended, <-ended)
}

// greeting returns the text that is printed at startup.
func greeting(program, address, kubeconfig string, seeds int, flags apiserverFlags, faults faultSpec) string {
	var b strings.Builder
	access := "without authentication"
	if flags.rbac {
		access = "with RBAC"
	}
	fmt.Fprintf(&b, "Serving a Kubernetes API on %s, in memory and %s.\n", address, access)
	if seeds > 0 {
		fmt.Fprintf(&b, "Loaded %s from %s.\n", counted(seeds, "object"), flags.seed)
	}
	if flags.objects > 0 {
		fmt.Fprintf(&b, "Generated a cluster of about %s, with %g writes per second.\n", counted(flags.objects, "object"), flags.churn)
	}
	switch {
	case flags.none:
		b.WriteString("No controllers run.\n")
	case flags.workloads:
		b.WriteString("Controllers, scheduler and kubelet have stand-ins: pods become Ready, and no container runs.\n")
	}
	if text := faults.String(); text != "" {
		fmt.Fprintf(&b, "Faults: %s.\n", text)
	}
	if flags.admin {
		fmt.Fprintf(&b, "Inject faults: curl -X POST '%s/tarn/cut?resource=pods'\n", address)
	}
	fmt.Fprintf(&b, "\nTo use it:\n\n  export KUBECONFIG=%s\n\nThen try %s watch pods -A, or kubectl get namespaces. Press Ctrl-C to stop.\n", shellWord(kubeconfig), program)
	return b.String()
}

// remoteHint returns lines about how other machines can reach the server, if that is
// allowed.
func remoteHint(base string, remote bool, hosts []string) (text string) {
	u, err := url.Parse(base)
	switch {
	case err != nil || !remote || !hostcheck.Loopback(u.Hostname()):
		return ""
	case len(hosts) == 0:
		return "Requests from other machines are rejected unless --allow-host lists the host name in their URL.\n"
	}
	for _, name := range hosts {
		text += fmt.Sprintf("Other machines can use %s://%s if that name resolves to this machine.\n", u.Scheme, net.JoinHostPort(name, u.Port()))
	}
	return text
}

// shellWord quotes a path for a shell if necessary.
func shellWord(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+:@%") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// listenError turns an error of net.Listen into a message with a remedy.
func listenError(address string, err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("address %s is already in use; choose another with --listen, or port 0 for a free one", address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("permission denied for address %s; choose a port above 1023 with --listen", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return usagef("address %s does not belong to this machine; choose another with --listen", address)
	case errors.As(err, &op):
		return usagef("cannot listen on %s: %s", address, lastOf(op))
	}
	return err
}
