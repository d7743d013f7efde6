package tarntest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
)

// Options says what a test runs. The zero value runs a server and a cluster without controllers.
type Options struct {
	// Server configures the embedded server. Defaults to the zero Options.
	Server apiserver.Options
	// On is a server to use instead of a new one, such as that of [apiserver.Explore]. Defaults to none.
	On *apiserver.Server
	// Prepare is called before the program starts. It loads manifests, creates objects or injects faults,
	// which then hit the first requests. Defaults to nothing.
	Prepare func(server *apiserver.Server) error
	// Controllers adds controllers to the cluster, as the program's main function does. Defaults to none.
	Controllers func(cluster *tarn.Cluster) error
	// Program makes the program in place of a cluster with Controllers: any other one that is given a config,
	// such as a manager of controller-runtime. It returns the function that runs the program until its
	// context ends. What the program logs is printed like the log of a cluster. Defaults to none.
	Program func(cfg *rest.Config, logger *slog.Logger) (run func(context.Context) error, err error)
	// Connect are options of the cluster, besides its config and its logger. Defaults to none.
	Connect []tarn.ConnectOption
	// ServiceAccount is the account with whose permissions the program runs, with the roles that Prepare
	// loads. A request that they do not permit fails the test. Defaults to none: the program may do
	// everything.
	ServiceAccount tarn.Key
	// Limit is how long [Env.Eventually] waits. Defaults to one minute.
	Limit time.Duration
}

// Env is what [Start] has started. Its methods may be called until the test ends.
type Env struct {
	// Server is the API server. Its methods act as a user of the cluster would.
	Server *apiserver.Server

	t     testing.TB
	opts  Options
	token string // of the ServiceAccount
	log   programLog

	mu      sync.Mutex // guards cluster
	cluster *tarn.Cluster
	first   chan error // the result of the first attempt to connect
}

// Start starts a server, and on it a program: a cluster with its controllers, or Options.Program. As in a Deployment with one
// replica, the program starts again a second after it has ended, or was killed by a fault; see
// [apiserver.Server.Supervise]. When the test ends, the program and then the server are stopped. If the test
// has failed, or with -v, the last lines that the program logged and its last requests are printed; both have
// the seconds since the start. In a testing/synctest bubble, pass the bubble's own T.
func Start(t testing.TB, opts Options) *Env {
	t.Helper()
	opts.Limit = cmp.Or(opts.Limit, time.Minute)
	if opts.Program != nil && (opts.Controllers != nil || opts.Connect != nil) {
		t.Fatal("tarntest: Options.Program replaces the cluster, so Controllers and Connect have no effect")
	}
	restricted := opts.ServiceAccount != tarn.Key{}
	opts.Server.RBAC = opts.Server.RBAC || restricted
	e := &Env{Server: opts.On, t: t, opts: opts, first: make(chan error, 1), log: programLog{began: time.Now()}}
	if e.Server == nil {
		e.Server = apiserver.Start(t, opts.Server)
	}
	if restricted && opts.On != nil && !opts.On.EvaluatesRBAC() {
		t.Fatal("tarntest: Options.ServiceAccount needs a server that evaluates permissions: set RBAC in its apiserver.Options, or in ExploreOptions.Server")
	}
	if opts.Prepare != nil {
		if err := opts.Prepare(e.Server); err != nil {
			t.Fatal(err)
		}
	}
	if restricted {
		account, err := e.Server.ServiceAccountConfig(opts.ServiceAccount.Namespace, opts.ServiceAccount.Name)
		if err != nil {
			t.Fatal(err)
		}
		e.token = account.BearerToken
	}
	t.Cleanup(func() { // after the program has stopped
		user, denied := fmt.Sprintf("ser %q ", "system:serviceaccount:"+opts.ServiceAccount.Namespace+":"+opts.ServiceAccount.Name), 0
		for _, text := range e.Server.Denied() { // also other users
			if strings.Contains(text, user) {
				denied++
			}
		}
		if restricted && denied > 0 {
			t.Errorf("tarntest: the ServiceAccount %s lacks %d permissions; the denials are listed below", opts.ServiceAccount, denied)
		}
		if t.Failed() || testing.Verbose() {
			t.Logf("tarntest: the log of the program:\n%s", &e.log)
		}
	})
	e.Server.Supervise(t, e.run)
	if err := <-e.first; err != nil {
		t.Fatal(err)
	}
	return e
}

// run is one start of the program.
func (e *Env) run(ctx context.Context, cfg *rest.Config) error {
	err := errors.New("tarntest: the function that makes the program did not return, because of t.Fatal or a panic; return an error instead")
	defer func() { e.started(err) }()
	cfg.BearerToken = cmp.Or(e.token, cfg.BearerToken)
	logger := slog.New(slog.NewTextHandler(&e.log, &slog.HandlerOptions{ReplaceAttr: e.log.sinceStart}))
	program := e.opts.Program
	if program == nil {
		program = e.connect
	}
	run, failed := program(cfg, logger)
	if err = failed; err != nil {
		return err
	}
	e.started(nil)
	return run(ctx)
}

// started reports the result of the first start.
func (e *Env) started(err error) {
	select {
	case e.first <- err:
	default: // it has started before
	}
}

// connect makes a cluster with the controllers.
func (e *Env) connect(cfg *rest.Config, logger *slog.Logger) (func(context.Context) error, error) {
	cluster, err := tarn.Connect(append([]tarn.ConnectOption{tarn.WithConfig(cfg), tarn.WithLogger(logger)}, e.opts.Connect...)...)
	if err != nil {
		return nil, err
	}
	if e.opts.Controllers != nil {
		if err := e.opts.Controllers(cluster); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cluster = cluster
	return cluster.Run, nil
}

// Cluster returns the cluster of the running program, or of its last start; nil with Options.Program.
func (e *Env) Cluster() *tarn.Cluster {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cluster
}

// checkEvery is the time between two calls of the condition of Eventually.
const checkEvery = 50 * time.Millisecond

// Eventually waits until a condition holds. If it does not within Options.Limit, the test fails with the text,
// which says what is awaited, and ends.
func (e *Env) Eventually(what string, holds func() bool) {
	e.t.Helper()
	for end := time.Now().Add(e.opts.Limit); !holds(); {
		if time.Now().After(end) {
			e.t.Fatalf("after %v: not %s", e.opts.Limit, what)
		}
		<-time.After(checkEvery)
	}
}
