package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tarnproject/tarn/wire"
)

// clusterFlags are kubectl's flags that select a cluster, a user and a namespace.
type clusterFlags struct {
	kubeconfig string
	userExtra  []string
	overrides  clientcmd.ConfigOverrides
}

// add adds the flags to a command. Discovery is not cached in files, each command has its own
// timeouts, and passwords are not accepted on the command line.
func (f *clusterFlags) add(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.Timeout, names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&f.overrides, flags, names)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "Path to the kubeconfig file to use")
	flags.StringArrayVar(&f.userExtra, "as-user-extra", nil, "User extras to impersonate for the operation, as key=value; may be repeated, also for one key")
}

// loader returns the kubeconfig that the flags select. It reads no file yet.
func (f *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := f.overrides
	for _, extra := range f.userExtra {
		if key, value, ok := strings.Cut(extra, "="); ok {
			if overrides.AuthInfo.ImpersonateUserExtra == nil {
				overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
			}
			overrides.AuthInfo.ImpersonateUserExtra[key] = append(overrides.AuthInfo.ImpersonateUserExtra[key], value)
		}
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides)
}

// addCluster adds the cluster flags and their completion to a command.
func (e *env) addCluster(cmd *cobra.Command) {
	e.cluster.add(cmd.Flags())
	complete(cmd, "context", e.completeContexts)
	complete(cmd, "namespace", e.completeNamespaces)
}

// config returns the client config and the namespace that the flags select. It sends no
// requests. Its errors are complete messages.
func (e *env) config(ctx context.Context) (cfg *rest.Config, namespace string, err error) {
	loader := e.cluster.loader()
	for _, path := range loader.ConfigAccess().GetLoadingPrecedence() {
		// Files listed in $KUBECONFIG may be missing.
		if err := readable(path); err != nil && (path == e.cluster.kubeconfig || !errors.Is(err, fs.ErrNotExist)) {
			return nil, "", usagef("cannot read kubeconfig %s: %s", path, reason(err))
		}
	}
	raw, err := interruptible(ctx, loader.RawConfig)
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err != nil {
		text := strings.TrimPrefix(lastOf(err), fmt.Sprintf("error loading config file %q: ", e.kubeconfigName()))
		return nil, "", fmt.Errorf("invalid kubeconfig %s: %s", e.kubeconfigName(), text)
	}
	if name := e.cluster.overrides.CurrentContext; name != "" && raw.Contexts[name] == nil {
		return nil, "", usagef("context %q not found in the kubeconfig; %s", name, contextsOf(slices.Sorted(maps.Keys(raw.Contexts))))
	}
	if inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""; api.IsConfigEmpty(&raw) && e.cluster.overrides.ClusterInfo.Server == "" && !inCluster {
		return nil, "", fmt.Errorf("no kubeconfig found at %s; set --kubeconfig, or run tarn demo, which needs no cluster", e.kubeconfigName())
	}
	cfg, err = loader.ClientConfig()
	switch {
	case clientcmd.IsContextNotFound(err):
		return nil, "", fmt.Errorf("the kubeconfig's current context %q does not exist; %s", raw.CurrentContext, contextsOf(slices.Sorted(maps.Keys(raw.Contexts))))
	case err != nil:
		return nil, "", fmt.Errorf("invalid kubeconfig %s: %s", e.kubeconfigName(), lastOf(err))
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("invalid kubeconfig %s: %s", e.kubeconfigName(), lastOf(err))
	}
	cfg.UserAgent = "tarn/" + versionOf().Version
	return cfg, namespace, nil
}

// client returns a client and the namespace that the flags select.
func (e *env) client(ctx context.Context) (client *wire.Client, namespace string, err error) {
	cfg, namespace, err := e.config(ctx)
	if err != nil {
		return nil, "", err
	}
	client, err = newClient(cfg, e)
	return client, namespace, err
}

// newClient returns a client with few retries, since a user is waiting.
func newClient(cfg *rest.Config, e *env) (*wire.Client, error) {
	client, err := wire.New(cfg, wire.Options{Retry: wire.Retry{Max: 2}, Logger: e.log})
	if err != nil {
		return nil, fmt.Errorf("invalid client configuration: %s", errorText(err))
	}
	return client, nil
}

// kubeconfigName returns where the kubeconfig is read from.
func (e *env) kubeconfigName() string {
	switch {
	case e.cluster.kubeconfig != "":
		return e.cluster.kubeconfig
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		return os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	return "~/.kube/config"
}

// reason returns the cause of a file error without operation and path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// lastOf returns the innermost error of a chain, on one line.
func lastOf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return oneLine(err.Error())
}

func contextsOf(names []string) string {
	if len(names) == 0 {
		return "it has no contexts"
	}
	return "available: " + strings.Join(names, ", ")
}
