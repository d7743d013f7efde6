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

// Options say which cluster [Connect] is to use, and how. The zero Options is ready to
// use: the cluster that kubectl would talk to, or in a pod the one that the pod is in.
type Options struct {
	// Config is the cluster's address and credentials; Kubeconfig, Context and InCluster
	// must then be empty. Defaults to nil: they are looked for.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig file. Defaults to the files that kubectl
	// reads, $KUBECONFIG or ~/.kube/config, and if there are none to that of the pod.
	Kubeconfig string
	// Context is the context of the kubeconfig to use. Defaults to its current one.
	Context string
	// InCluster uses the service account of the pod and looks at no kubeconfig.
	// Defaults to false.
	InCluster bool

	// UserAgent is sent with every request. Defaults to that of Config, or else to the
	// program's name and version.
	UserAgent string
	// QPS is how many requests may be sent in a second, and Burst how many at once after
	// a pause. They default to what Config says, or else to no limit: the server's own
	// fairness and the Lists budget do better.
	QPS   float64
	Burst int

	// Lists is how many mirrors may fetch their state at the same time; the others wait
	// for their turn. Defaults to 8.
	Lists int
	// Streaming says whether the state is fetched by streaming list.
	// Defaults to reflector.StreamingAuto: wherever the server can.
	Streaming reflector.Mode
	// Backoff says how long to wait after failures. Defaults to the zero Backoff.
	Backoff reflector.Backoff
	// GoneAfter is how long a resource that was served must be missing before its objects
	// count as deleted; negative is never. Defaults to 30 seconds.
	GoneAfter time.Duration
	// ServedEvery is how often the server is asked for a resource that it does not serve
	// yet, or no longer. Defaults to 3 seconds.
	ServedEvery time.Duration

	// OnMutation is told when somebody wrote to an object of a mirror, which is shared; see
	// informer.Options. It costs a copy of every object: turn it on in tests.
	// Defaults to nil: nobody looks.
	OnMutation func(store.Mutation)
	// Logger gets what fails and is tried again, warnings of the server, and subscribers
	// that panic. Defaults to none.
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

// Valid returns an error that names the first field with an impossible value.
func (o Options) Valid() error {
	switch {
	case o.Config != nil && (o.Kubeconfig != "" || o.Context != "" || o.InCluster):
		return errors.New("tarn: Options.Config is set, and so is Kubeconfig, Context or InCluster; choose one")
	case o.InCluster && (o.Kubeconfig != "" || o.Context != ""):
		return errors.New("tarn: Options.InCluster is set, and so is Kubeconfig or Context; choose one")
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

// Connect returns the cluster that the options name. It reads the configuration but asks
// the server nothing: that begins with [Cluster.Run].
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

// load finds the configuration and the namespace that goes with it.
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
		return nil, "", fmt.Errorf("tarn: connect: the kubeconfig cannot be read: %w", err)
	case len(raw.Clusters) == 0 && o.Kubeconfig == "" && o.Context == "":
		if config, namespace, err = inCluster(); errors.Is(err, rest.ErrNotInCluster) {
			err = fmt.Errorf("tarn: connect: there is neither a kubeconfig at %s nor a pod's service account; set Options.Kubeconfig or $KUBECONFIG",
				strings.Join(rules.Precedence, " or "))
		}
		return config, namespace, err
	case len(raw.Clusters) == 0 && o.Kubeconfig != "":
		return nil, "", fmt.Errorf("tarn: connect: %s names no cluster", o.Kubeconfig)
	}
	if config, err = files.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("tarn: connect: the kubeconfig cannot be used: %w", err)
	}
	if namespace, _, err = files.Namespace(); err != nil || namespace == "" {
		namespace = "default"
	}
	return config, namespace, nil
}

// podNamespace is where a pod finds the name of its own namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func inCluster() (*rest.Config, string, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, "", fmt.Errorf("tarn: connect: the pod's service account: %w", err)
	}
	namespace := "default"
	if text, err := os.ReadFile(podNamespace); err == nil && len(text) > 0 {
		namespace = strings.TrimSpace(string(text))
	}
	return config, namespace, nil
}
