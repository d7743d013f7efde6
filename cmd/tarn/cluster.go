package main

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

	"github.com/tarnproject/tarn/wire"
)

// clusterFlags say which cluster, with the names that kubectl's users know.
type clusterFlags struct {
	kubeconfig string
	context    string
}

// add registers the flags that choose a cluster.
func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig `file` to use (default $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "the context of the kubeconfig to use")
}

// addCluster gives a command the flags that choose a cluster, with their completion.
func (e *env) addCluster(cmd *cobra.Command) {
	e.cluster.add(cmd.Flags())
	complete(cmd, "context", e.completeContexts)
}

// loader returns what reads the kubeconfig that the flags name.
func (f *clusterFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	rules.WarnIfAllMissing = false
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
}

// config returns how to reach the cluster that the flags name, and the namespace that
// its context prefers. Nothing is asked of the server. Its errors are whole sentences.
func (e *env) config(ctx context.Context) (cfg *rest.Config, namespace string, err error) {
	loader := e.cluster.loader()
	for _, path := range loader.ConfigAccess().GetLoadingPrecedence() {
		// Files that the environment names need not exist.
		if err := readable(path); err != nil && (path == e.cluster.kubeconfig || !errors.Is(err, fs.ErrNotExist)) {
			return nil, "", usagef("cannot read the kubeconfig %s: %s", path, reason(err))
		}
	}
	raw, err := interruptible(ctx, loader.RawConfig)
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	if err != nil {
		text := strings.TrimPrefix(lastOf(err), fmt.Sprintf("error loading config file %q: ", e.kubeconfigName()))
		return nil, "", fmt.Errorf("the kubeconfig %s cannot be used: %s", e.kubeconfigName(), text)
	}
	if name := e.cluster.context; name != "" && raw.Contexts[name] == nil {
		return nil, "", usagef("the kubeconfig has no context %q; %s", name, contextsOf(slices.Sorted(maps.Keys(raw.Contexts))))
	}
	cfg, err = loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("there is no cluster to talk to: no kubeconfig was found at %s; name one with --kubeconfig, or run tarn demo, which needs none", e.kubeconfigName())
	case clientcmd.IsContextNotFound(err):
		return nil, "", fmt.Errorf("the kubeconfig's current context %q does not exist; %s", raw.CurrentContext, contextsOf(slices.Sorted(maps.Keys(raw.Contexts))))
	case err != nil:
		return nil, "", fmt.Errorf("the kubeconfig %s cannot be used: %s", e.kubeconfigName(), lastOf(err))
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("the kubeconfig %s cannot be used: %s", e.kubeconfigName(), lastOf(err))
	}
	cfg.UserAgent = "tarn/" + versionOf().Version
	return cfg, namespace, nil
}

// client returns a client of the cluster that the flags name, and the namespace that its
// context prefers.
func (e *env) client(ctx context.Context) (client *wire.Client, namespace string, err error) {
	cfg, namespace, err := e.config(ctx)
	if err != nil {
		return nil, "", err
	}
	client, err = newClient(cfg, e)
	return client, namespace, err
}

// newClient returns a client that gives up soon: somebody is waiting for it.
func newClient(cfg *rest.Config, e *env) (*wire.Client, error) {
	client, err := wire.New(cfg, wire.Options{Retry: wire.Retry{Max: 2}, Logger: e.log})
	if err != nil {
		return nil, fmt.Errorf("the cluster's settings cannot be used: %s", sentence(err))
	}
	return client, nil
}

// kubeconfigName says where the kubeconfig is looked for.
func (e *env) kubeconfigName() string {
	switch {
	case e.cluster.kubeconfig != "":
		return e.cluster.kubeconfig
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		return os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	return "~/.kube/config"
}

// reason returns what is wrong with a file, without the name of the system call.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// lastOf returns the innermost text of a chain of errors, on one line.
func lastOf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return oneLine(err.Error())
}

func contextsOf(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}
