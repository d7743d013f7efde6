package managertest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/tarntest"
)

// Options says what a test runs.
type Options struct {
	// Manager makes the program's manager and adds its controllers, as its main function does. It adds the
	// program's own settings to the options, which have those of a test: no address for metrics, the log of the
	// test, webhooks without a port, and controllers that may be started several times in one process. Required.
	Manager func(cfg *rest.Config, options ctrl.Options) (ctrl.Manager, error)
	// Env has the other options: the server, manifests and faults in Prepare, the ServiceAccount, and as On the
	// server of apiserver.Explore. Controllers, Connect and Program must be unset. Defaults to the zero Options.
	Env tarntest.Options
	// Webhooks is the service of the program's webhook configurations, such as system/webhook-service: the
	// server calls the manager's webhooks in the process. Defaults to none.
	Webhooks tarn.Key
}

// Env is what [Start] has started.
type Env struct {
	*tarntest.Env

	t      testing.TB
	opts   Options
	server *apiserver.Server

	mu      sync.Mutex // guards manager
	manager ctrl.Manager
}

// Start starts a server, and on it the manager. As in a Deployment with one replica, the manager starts again a
// second after it has ended, or was killed by a fault. Everything else is as in [tarntest.Start].
func Start(t testing.TB, opts Options) *Env {
	t.Helper()
	e := &Env{t: t, opts: opts}
	env := opts.Env
	if env.Program != nil || env.Controllers != nil || env.Connect != nil {
		t.Fatal("managertest: Options.Env.Program, Controllers and Connect must be unset, because the manager is the program")
	}
	env.Prepare = func(server *apiserver.Server) error {
		e.server = server
		if opts.Env.Prepare == nil {
			return nil
		}
		return opts.Env.Prepare(server)
	}
	env.Program = e.program
	e.Env = tarntest.Start(t, env)
	return e
}

// program makes a manager. It is called for each start.
func (e *Env) program(cfg *rest.Config, logger *slog.Logger) (run func(context.Context) error, err error) {
	if e.opts.Manager == nil {
		return nil, errors.New("managertest: Options.Manager is required")
	}
	setLog(logger)
	again := true
	mgr, err := e.opts.Manager(cfg, ctrl.Options{
		Logger:        logr.FromSlogHandler(logger.Handler()),
		Metrics:       metricsserver.Options{BindAddress: "0"},
		Controller:    config.Controller{SkipNameValidation: &again},
		WebhookServer: inProcess{webhook.NewServer(webhook.Options{})},
	})
	if err != nil {
		return nil, err
	}
	if e.opts.Webhooks != (tarn.Key{}) {
		e.server.HandleWebhook(e.opts.Webhooks.Namespace, e.opts.Webhooks.Name, mgr.GetWebhookServer().WebhookMux())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.manager = mgr
	return mgr.Start, nil
}

// inProcess is a webhook server that does not listen.
type inProcess struct{ webhook.Server }

// Start implements manager.Runnable.
func (inProcess) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Manager returns the running manager, or that of the last start.
func (e *Env) Manager() ctrl.Manager {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.manager
}

// Client returns a client without a cache, with the scheme of the manager and all permissions: it acts as a user
// of the cluster would.
func (e *Env) Client() client.Client {
	e.t.Helper()
	c, err := client.New(e.Server.MemoryConfig(), client.Options{Scheme: e.Manager().GetScheme()})
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}
