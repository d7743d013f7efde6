package tarn

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// Options select the cluster for [Connect] and configure its client. The zero Options selects
// the cluster that kubectl would use, or, in a pod without a kubeconfig, the pod's own.
type Options struct {
	// Config has the cluster's address and credentials. If it is set, Kubeconfig, Context and
	// InCluster must be empty. Defaults to nil: the configuration is loaded.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig file. Defaults to the files that kubectl
	// reads, $KUBECONFIG or ~/.kube/config, and without one to the pod's service account.
	Kubeconfig string
	// Context is the context of the kubeconfig to use. Defaults to its current one.
	Context string
	// InCluster uses the pod's service account and reads no kubeconfig.
	// Defaults to false.
	InCluster bool

	// UserAgent is sent with every request. Defaults to that of Config, or else to the
	// program's name and version.
	UserAgent string
	// QPS limits the requests per second, and Burst how many may be sent at once after a
	// pause. Default to those of Config, or else to no limit: the server's priority and
	// fairness and the Lists budget are better limits.
	QPS   float64
	Burst int

	// Lists is how many mirrors may list at the same time; the others wait. Defaults to 8.
	Lists int
	// Streaming selects whether mirrors use streaming lists.
	// Defaults to reflector.StreamingAuto: wherever the server supports them.
	Streaming reflector.Mode
	// Backoff is the wait after failures. Defaults to the zero Backoff.
	Backoff reflector.Backoff
	// GoneAfter is how long a resource that was served must be missing before its objects
	// are treated as deleted. Negative means never. Defaults to 30 seconds.
	GoneAfter time.Duration
	// ServedEvery is how often the cluster checks whether the server serves a resource that
	// it did not serve before. Defaults to 3 seconds.
	ServedEvery time.Duration

	// OnMutation is called when a shared object of a mirror was written to; see
	// informer.Options. It keeps a copy of every object, so enable it in tests only.
	// Defaults to nil: mutations are not detected.
	OnMutation func(store.Mutation)
	// Logger receives failures that are retried, warnings from the server, and panics of
	// subscribers. Defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Lists == 0 {
		o.Lists = 8
	}
	if o.ServedEvery == 0 {
		o.ServedEvery = 3 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Valid returns an error that names the first field with an invalid value.
func (o Options) Valid() error {
	switch {
	case o.Config != nil && (o.Kubeconfig != "" || o.Context != "" || o.InCluster):
		return errors.New("tarn: Options.Config excludes Kubeconfig, Context and InCluster; set only one")
	case o.InCluster && (o.Kubeconfig != "" || o.Context != ""):
		return errors.New("tarn: Options.InCluster excludes Kubeconfig and Context; set only one")
	case o.QPS < 0 || o.Burst < 0:
		return errors.New("tarn: Options.QPS or Burst is negative; leave them 0 for no limit")
	case o.QPS == 0 && o.Burst > 0:
		return errors.New("tarn: Options.Burst needs a QPS")
	case o.Lists < 0:
		return errors.New("tarn: Options.Lists is negative; leave it 0 for the default")
	case o.ServedEvery < 0:
		return errors.New("tarn: Options.ServedEvery is negative; leave it 0 for the default")
	}
	return nil
}

// Connect returns the cluster that the options select. It loads the configuration and sends
// no request; requests start with [Cluster.Run].
func Connect(opts Options) (*Cluster, error) {
	if err := opts.Valid(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	config, namespace, err := opts.load()
	if err != nil {
		return nil, err
	}
	wireOpts := wire.Options{UserAgent: opts.UserAgent, Logger: opts.Logger}
	if opts.QPS > 0 {
		burst := opts.Burst
		if burst == 0 {
			burst = int(opts.QPS) + 1
		}
		wireOpts.Limiter = wire.NewLimiter(opts.QPS, burst)
	}
	client, err := wire.New(config, wireOpts)
	if err != nil {
		return nil, fmt.Errorf("tarn: connect: %w", err)
	}
	return newCluster(client, config, namespace, opts), nil
}

// load returns the configuration and its default namespace.
func (o Options) load() (config *rest.Config, namespace string, err error) {
	switch {
	case o.Config != nil:
		return rest.CopyConfig(o.Config), "default", nil
	case o.InCluster:
		return inCluster()
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false
	files := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	raw, err := files.RawConfig()
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("tarn: connect: read kubeconfig: %w", err)
	case len(raw.Clusters) == 0 && o.Kubeconfig == "" && o.Context == "":
		if config, namespace, err = inCluster(); errors.Is(err, rest.ErrNotInCluster) {
			err = fmt.Errorf("tarn: connect: found neither a kubeconfig at %s nor a pod's service account; set Options.Kubeconfig or $KUBECONFIG",
				strings.Join(rules.Precedence, " or "))
		}
		return config, namespace, err
	case len(raw.Clusters) == 0 && o.Kubeconfig != "":
		return nil, "", fmt.Errorf("tarn: connect: %s names no cluster", o.Kubeconfig)
	}
	if config, err = files.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("tarn: connect: load kubeconfig: %w", err)
	}
	if namespace, _, err = files.Namespace(); err != nil || namespace == "" {
		namespace = "default"
	}
	return config, namespace, nil
}

// podNamespace is the file that has the name of the pod's namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func inCluster() (*rest.Config, string, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, "", fmt.Errorf("tarn: connect: in-cluster configuration: %w", err)
	}
	namespace := "default"
	if text, err := os.ReadFile(podNamespace); err == nil && len(text) > 0 {
		namespace = strings.TrimSpace(string(text))
	}
	return config, namespace, nil
}
