package tarn

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// ConnectOption selects the cluster for [Connect] or changes how it works.
type ConnectOption func(*options)

// options is the sum of the ConnectOptions.
type options struct {
	config              *rest.Config
	kubeconfig, context string
	inCluster           bool
	namespace           string

	userAgent    string
	fieldManager string
	qps          float64
	burst        int
	tuning       Tuning
	console      console.HandlerOptions
	lease        string
	led          bool // WithLeaderElection was used
	election     leader.Options
	group        string
	sharded      bool // WithSharding was used
	sharding     shard.Options
	reconciles   []controller.Observer
	requests     []wire.Observer
	onMutation   func(store.Mutation)
	watchErrors  func(mirror string, err error)
	audit        time.Duration                    // 0 for none
	journal      func() (*journal.Journal, error) // nil for none
	logger       *slog.Logger
}

// WithConfig uses the address and credentials of a configuration instead of loading one.
func WithConfig(config *rest.Config) ConnectOption { return func(o *options) { o.config = config } }

// WithKubeconfig loads the configuration from a kubeconfig file.
// Defaults to the files that kubectl reads, $KUBECONFIG or ~/.kube/config, and without one to
// the pod's service account.
func WithKubeconfig(path string) ConnectOption { return func(o *options) { o.kubeconfig = path } }

// WithContext selects a context of the kubeconfig. Defaults to its current one.
func WithContext(name string) ConnectOption { return func(o *options) { o.context = name } }

// InCluster uses the pod's service account and reads no kubeconfig.
func InCluster() ConnectOption { return func(o *options) { o.inCluster = true } }

// WithNamespace sets the namespace of [Cluster.Namespace]. Defaults to that of the kubeconfig's
// context, or that of the pod.
func WithNamespace(name string) ConnectOption { return func(o *options) { o.namespace = name } }

// WithUserAgent sets the user agent of all requests. Defaults to that of the configuration, or
// else to the program's name and version.
func WithUserAgent(name string) ConnectOption { return func(o *options) { o.userAgent = name } }

// WithFieldManager sets the field manager of all writes of a [Client].
// Defaults to the program's name.
func WithFieldManager(name string) ConnectOption { return func(o *options) { o.fieldManager = name } }

// WithRateLimit limits the requests per second, with at most burst at once after a pause. Those for
// the leases of [WithLeaderElection] and [WithSharding] do not count: a late renewal ends the work. Defaults to the limit of the configuration, or else to none: the server's priority and
// fairness, and Tuning.Lists, are better limits.
func WithRateLimit(perSecond float64, burst int) ConnectOption {
	return func(o *options) { o.qps, o.burst = perSecond, burst }
}

// WithLeaderElection runs the cluster's controllers only while this process holds the Lease
// with the given name, in the namespace of [Cluster.Namespace]. Mirrors run in any case, so
// that a new leader starts with a warm cache. The Caches of opts are the cluster's mirrors.
func WithLeaderElection(lease string, opts leader.Options) ConnectOption {
	return func(o *options) { o.lease, o.led, o.election = lease, true, opts }
}

// WithSharding divides the keys of the cluster's controllers among all processes that run with the
// same group, which find each other through Leases in the namespace of [Cluster.Namespace]. Each
// process mirrors everything and reconciles its share of the keys; see package controller/shard for
// the guarantees, and [ShardBy] for which keys stay together. With Ranges of shard.Options it mirrors
// only its own namespaces of namespaced resources, except in mirrors with [Unsharded]. The Caches of opts
// are the cluster's mirrors, and its Divide sets their part. It excludes [WithLeaderElection].
func WithSharding(group string, opts shard.Options) ConnectOption {
	return func(o *options) { o.group, o.sharded, o.sharding = group, true, opts }
}

// WithObservers adds observers of the reconciles of all controllers and of all requests, for
// tracing: see package console/tracing. Either may be nil. Metrics need none; see [Cluster.Serve].
func WithObservers(reconciles controller.Observer, requests wire.Observer) ConnectOption {
	return func(o *options) {
		if reconciles != nil {
			o.reconciles = append(o.reconciles, reconciles)
		}
		if requests != nil {
			o.requests = append(o.requests, requests)
		}
	}
}

// WithMutationCheck calls f when a shared object of a mirror was written to; see
// informer.Options. It keeps a copy of every object, so use it in tests only.
func WithMutationCheck(f func(store.Mutation)) ConnectOption {
	return func(o *options) { o.onMutation = f }
}

// WithConsole changes who may use the console and what it may change; see [Cluster.Handler].
// Defaults to reading, with the zero console.Guard.
func WithConsole(opts console.HandlerOptions) ConnectOption {
	return func(o *options) { o.console = opts }
}

// WithAudit compares each mirror with the server once per period; see [Cluster.Audit]. Differences are
// logged, and shown by metrics and the console. Defaults to no audits.
func WithAudit(period time.Duration) ConnectOption { return func(o *options) { o.audit = period } }

// WithLogger sets the logger, which receives failures that are retried, warnings from the
// server, panics of subscribers, and failed reconciles. Defaults to [slog.Default].
func WithLogger(logger *slog.Logger) ConnectOption { return func(o *options) { o.logger = logger } }

// WithWatchErrors calls f with the name of a mirror and each failure of its lists and watches, which are
// then not logged. f must not block. Defaults to a warning in the log.
func WithWatchErrors(f func(mirror string, err error)) ConnectOption {
	return func(o *options) { o.watchErrors = f }
}

// WithTuning changes how mirrors list and watch.
func WithTuning(t Tuning) ConnectOption { return func(o *options) { o.tuning = t } }

// Tuning is how the mirrors of a cluster list and watch. The zero Tuning suits most programs.
type Tuning struct {
	// Lists is how many mirrors may list at the same time; the others wait. Defaults to 8.
	Lists int
	// Streaming selects whether mirrors use streaming lists.
	// Defaults to reflector.StreamingAuto: wherever the server supports them.
	Streaming reflector.Mode
	// Backoff is the wait after failures. Defaults to the zero Backoff.
	Backoff reflector.Backoff
	// RemovedAfter is how long a resource that was served must be missing before its objects
	// are treated as deleted. Negative means never. Defaults to 30 seconds.
	RemovedAfter time.Duration
	// ServedEvery is how often the cluster checks whether the server serves a resource that
	// it did not serve before. Defaults to 3 seconds.
	ServedEvery time.Duration
}

func (o *options) setDefaults() {
	if o.tuning.Lists == 0 {
		o.tuning.Lists = 8
	}
	if o.tuning.ServedEvery == 0 {
		o.tuning.ServedEvery = 3 * time.Second
	}
	if o.logger == nil {
		o.logger = slog.Default()
	}
}

func (o *options) validate() error {
	switch {
	case o.config != nil && (o.kubeconfig != "" || o.context != "" || o.inCluster):
		return errors.New("tarn: connect: WithConfig excludes WithKubeconfig, WithContext and InCluster; use only one")
	case o.inCluster && (o.kubeconfig != "" || o.context != ""):
		return errors.New("tarn: connect: InCluster excludes WithKubeconfig and WithContext; use only one")
	case o.led && o.lease == "" || o.sharded && o.group == "":
		return errors.New("tarn: connect: WithLeaderElection and WithSharding need a name")
	case o.led && o.sharded:
		return errors.New("tarn: connect: WithLeaderElection lets one process work and WithSharding all of them; use only one")
	case o.qps < 0 || o.burst < 0 || o.qps == 0 && o.burst > 0:
		return fmt.Errorf("tarn: connect: WithRateLimit(%v, %d): want a positive rate", o.qps, o.burst)
	case o.audit < 0:
		return errors.New("tarn: connect: WithAudit needs a positive period")
	case o.tuning.Lists < 0:
		return errors.New("tarn: connect: Tuning.Lists is negative; leave it 0 for the default")
	case o.tuning.ServedEvery < 0:
		return errors.New("tarn: connect: Tuning.ServedEvery is negative; leave it 0 for the default")
	}
	return nil
}

// Connect returns the cluster that the options select: without any the one that kubectl would
// use, or, in a pod without a kubeconfig, the pod's own. It loads the configuration and sends
// no request; requests start with [Cluster.Run].
func Connect(opts ...ConnectOption) (*Cluster, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	config, namespace, err := o.load()
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(o.namespace, namespace)
	registry := newRegistry()
	exporter, err := metrics.New(registry)
	if err != nil {
		return nil, fmt.Errorf("tarn: connect: %w", err)
	}
	wireOpts := wire.Options{UserAgent: o.userAgent, Logger: o.logger, Observers: append(o.requests, exporter.Request)}
	if o.qps > 0 {
		if o.burst == 0 {
			o.burst = int(o.qps) + 1
		}
		wireOpts.Limiter = wire.NewLimiter(o.qps, o.burst)
	}
	client, err := wire.New(config, wireOpts)
	if err != nil {
		return nil, fmt.Errorf("tarn: connect: %w", err)
	}
	return newCluster(client, config, namespace, o, registry, exporter)
}

// load returns the configuration and its default namespace.
func (o *options) load() (config *rest.Config, namespace string, err error) {
	switch {
	case o.config != nil:
		return rest.CopyConfig(o.config), "default", nil
	case o.inCluster:
		return inCluster()
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	rules.WarnIfAllMissing = false
	files := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	raw, err := files.RawConfig()
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("tarn: connect: read kubeconfig: %w", err)
	case len(raw.Clusters) == 0 && o.kubeconfig == "" && o.context == "":
		if config, namespace, err = inCluster(); errors.Is(err, rest.ErrNotInCluster) {
			err = fmt.Errorf("tarn: connect: found neither a kubeconfig at %s nor a pod's service account; use tarn.WithKubeconfig or $KUBECONFIG",
				strings.Join(rules.Precedence, " or "))
		}
		return config, namespace, err
	case len(raw.Clusters) == 0 && o.kubeconfig != "":
		return nil, "", fmt.Errorf("tarn: connect: %s names no cluster", o.kubeconfig)
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
