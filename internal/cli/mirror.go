package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/internal/hostcheck"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

type mirrorFlags struct {
	selectionFlags
	listen      string
	remote      bool
	hosts       []string
	indexes     []string
	compact     bool
	showSecrets bool
}

func newMirrorCommand(e *env) *cobra.Command {
	var flags mirrorFlags
	cmd := &cobra.Command{
		Use:   "mirror RESOURCE...",
		Short: "Mirror resources and serve them over HTTP",
		Long: `Keep live mirrors of one or more resources in memory and serve them as JSON until
interrupted. Requests to the mirror cause no load on the cluster.

Clients are not authenticated, so the mirror listens on loopback. Access from other machines
needs --allow-remote, and --allow-host for the host name in their URLs.

  /healthz                       whether the process is running
  /readyz                        whether all mirrors are synced, and if not, why; with ?live
                                 also whether they are receiving changes
  /metrics                       Prometheus metrics
  /debug/tarn/                   the console; with --allow-remote it requires a token, which -v logs
  /v1                            the mirrors and their status
  /v1/RESOURCE                   objects; filtered by ?namespace=, ?labelSelector= and
                                 ?index=NAME&value=VALUE; paged by ?limit= and ?continue=
  /v1/RESOURCE?watch             the objects and then every change as server-sent events;
                                 filtered by ?namespace= and ?labelSelector=
  /v1/RESOURCE/NAMESPACE/NAME    one object; no NAMESPACE if it is cluster-scoped
  /v1/RESOURCE?values=INDEX      the values of an index with their object counts

The events of ?watch are ADDED, MODIFIED and DELETED, each with the object, and BOOKMARK, whose id
is the resource version that has been reached. A client that reconnects with Last-Event-ID within
a minute receives what has changed since then. Later it receives RESET and then all objects. A
client that is slower than the changes receives the latest state of each object.

--index NAME=PATH indexes all resources by a field, --index RESOURCE:NAME=PATH only one.
The data of Secrets is hidden, also in indexes.`,
		Example: `  tarn mirror pods deployments -A
  tarn mirror pods -A --index node=.spec.nodeName
  curl 'localhost:8484/v1/pods?index=node&value=node-7'
  curl 'localhost:8484/v1/pods?namespace=shop&labelSelector=app%3Dweb'
  curl localhost:8484/v1/deployments/shop/web
  curl -N 'localhost:8484/v1/pods?watch&namespace=shop'`,
		Args:              resourceArgs,
		ValidArgsFunction: e.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMirror(cmd.Context(), e, flags, args)
		},
	}
	e.addCluster(cmd)
	flags.selectionFlags.add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "127.0.0.1:8484", "the `address` to listen on; port 0 picks a free port")
	f.BoolVar(&flags.remote, "allow-remote", false, allowRemote)
	addHosts(f, &flags.hosts)
	f.StringArrayVar(&flags.indexes, "index", nil, "index by a field: `NAME=PATH` or RESOURCE:NAME=PATH")
	f.BoolVar(&flags.compact, "compact", false, "store objects encoded: less memory, slower reads")
	f.BoolVar(&flags.showSecrets, "show-secrets", false, "serve the data of Secrets")
	return cmd
}

// mirrorIndex is a parsed --index.
type mirrorIndex struct {
	resource string // as given by the user; empty for all
	name     string
	path     string
}

// parseIndex parses [RESOURCE:]NAME=PATH.
func parseIndex(text string) (mirrorIndex, error) {
	left, path, ok := strings.Cut(text, "=")
	x := mirrorIndex{name: left, path: path}
	if resource, name, of := strings.Cut(left, ":"); of {
		x.resource, x.name = resource, name
		ok = ok && resource != ""
	}
	if !ok || x.name == "" || x.path == "" {
		return x, usagef("invalid --index %q: must be like node=.spec.nodeName or pods:node=.spec.nodeName", text)
	}
	if _, err := store.FieldIndex[*unstructured.Unstructured](x.path); err != nil {
		return x, usagef("--index %q: %s", text, strings.TrimPrefix(err.Error(), "store: "))
	}
	return x, nil
}

func (f *mirrorFlags) check(e *env) ([]mirrorIndex, error) {
	if err := f.selectionFlags.check(e); err != nil {
		return nil, err
	}
	if err := checkListen(f.listen, f.remote, "127.0.0.1:8484"); err != nil {
		return nil, err
	}
	var indexes []mirrorIndex
	for _, text := range f.indexes {
		x, err := parseIndex(text)
		if err != nil {
			return nil, err
		}
		indexes = append(indexes, x)
	}
	return indexes, nil
}

// runMirror mirrors and serves until ctx ends.
func runMirror(ctx context.Context, e *env, flags mirrorFlags, args []string) error {
	indexes, err := flags.check(e)
	if err != nil {
		return err
	}
	cfg, namespace, err := e.config(ctx)
	if err != nil {
		return err
	}
	cluster, err := tarn.Connect(tarn.WithConfig(cfg), tarn.WithLogger(e.log))
	if err != nil {
		return err
	}
	defer cluster.Client().CloseIdleConnections()
	found, err := e.find(ctx, cfg, args)
	if err != nil {
		return err
	}
	service, err := newMirrorService(cluster, flags)
	if err != nil {
		return err
	}
	for _, d := range found {
		if err := service.add(d, flags, flags.of(d.Resource, namespace), indexes); err != nil {
			return err
		}
	}
	if err := service.unused(indexes); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return listenError(flags.listen, err)
	}
	address := hostcheck.Reachable(flags.listen, listener.Addr())
	fmt.Fprintf(e.out, "Serving %s on http://%s. Press Ctrl-C to stop. Try:\n  curl http://%[2]s/readyz\n  curl http://%[2]s/v1/%s\nConsole: %s\n%s",
		strings.Join(service.names(), ", "), address, service.names()[0], consoleAddress(flags.listen, listener), remoteHint("http://"+address, flags.remote, flags.hosts))
	if err := e.out.err(); err != nil {
		return errors.Join(err, listener.Close())
	}
	return service.run(ctx, e, listener)
}

// allowRemote is the help text of --allow-remote.
const allowRemote = "allow --listen on an address that other machines can reach, without authentication"

// addHosts adds the flag --allow-host.
func addHosts(flags *pflag.FlagSet, to *[]string) {
	flags.StringSliceVar(to, "allow-host", nil, "a host `name` that clients may use, in addition to localhost and the --listen address")
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

// newMirrorService returns a service without mirrors.
func newMirrorService(cluster *tarn.Cluster, flags mirrorFlags) (*mirrorService, error) {
	reg := prometheus.NewRegistry()
	if err := errors.Join(reg.Register(collectors.NewGoCollector()), reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, err
	}
	exporter, err := metrics.New(reg)
	if err != nil {
		return nil, err
	}
	s := &mirrorService{cluster: cluster, registry: reg, hosts: hostcheck.Listening(flags.listen, flags.hosts), streams: make(chan struct{}, watchMost)}
	exporter.AddCluster(s)
	return s, nil
}

// find resolves resource names and checks that the resources can be mirrored.
func (e *env) find(ctx context.Context, cfg *rest.Config, args []string) ([]wire.Discovered, error) {
	client, err := newClient(cfg, e)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	found, err := e.resolve(ctx, client, args)
	if err != nil {
		return nil, err
	}
	return found, watchableOnly(found...)
}

// add declares the mirror of a resource.
func (s *mirrorService) add(d wire.Discovered, flags mirrorFlags, sel object.Selection, indexes []mirrorIndex) error {
	m := &mirrored{
		Discovered: d,
		labels:     store.NewLabelIndex[*unstructured.Unstructured](nil),
		indexes:    map[string]*store.Index[*unstructured.Unstructured, string]{},
	}
	var opts []tarn.Option
	for _, x := range indexes {
		if x.resource != "" && !m.called(x.resource) {
			continue
		}
		if m.indexes[x.name] != nil {
			return usagef("--index %s is given twice for %s", x.name, d.Resource)
		}
		index, err := store.FieldIndex[*unstructured.Unstructured](x.path)
		if err != nil {
			return err
		}
		m.indexes[x.name] = index
	}
	if sel.Namespace != "" {
		opts = append(opts, tarn.InNamespaces(sel.Namespace))
	}
	if sel.Labels != "" {
		opts = append(opts, tarn.Matching(sel.Labels))
	}
	if sel.Fields != "" {
		opts = append(opts, tarn.MatchingFields(sel.Fields))
	}
	if flags.compact {
		opts = append(opts, tarn.Compact())
	}
	var hide *tarn.Transform[*unstructured.Unstructured]
	if !flags.showSecrets && isSecret(d.Resource, nil) {
		// Hidden before objects are stored, so that indexes do not reveal the values.
		hide = tarn.NewTransform("hide secrets", func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return mask(d.Resource, obj), nil
		})
	}
	var err error
	if m.handle, err = tarn.MirrorTransformed(s.cluster, wire.Unstructured(d.Resource), hide, opts...); err != nil {
		return err
	}
	m.handle.AddIndex(m.labels)
	for _, x := range m.indexes {
		m.handle.AddIndex(x)
	}
	s.mirrors = append(s.mirrors, m)
	return nil
}

// unused returns an error for an index on a resource that is not mirrored.
func (s *mirrorService) unused(indexes []mirrorIndex) error {
	for _, x := range indexes {
		if x.resource != "" && !slices.ContainsFunc(s.mirrors, func(m *mirrored) bool { return m.called(x.resource) }) {
			return usagef("--index %s:%s=%s: %s is not mirrored; mirrored resources: %s", x.resource, x.name, x.path, x.resource, strings.Join(s.names(), ", "))
		}
	}
	return nil
}

// run serves until ctx ends.
func (s *mirrorService) run(ctx context.Context, e *env, listener net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	srv := &console.Server{Listener: listener, Handler: s.handler(), Logger: e.log}
	ended := make(chan struct{}, 3)
	start := func(run func() error) {
		defer func() { ended <- struct{}{} }()
		if err := run(); err != nil {
			cancel(err)
		}
	}
	defer notice(e.say, s.waiting)()
	go start(func() error { return s.cluster.Run(ctx) })
	go start(func() error { return s.follow(ctx, e) })
	go start(func() error { return srv.Run(ctx) })
	<-ctx.Done()
	for range cap(ended) {
		<-ended
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// varying matches what changes from one second to the next in the sentences of a problem.
var varying = regexp.MustCompile(`[0-9][0-9.,:TZhmsµn-]*`)

// follow reports the states of mirrors and their problems on standard error, once each until they
// change.
func (s *mirrorService) follow(ctx context.Context, e *env) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last, reported := map[string]string{}, map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if ctx.Err() != nil {
			return nil // stopped mirrors are not a problem
		}
		status := s.cluster.Status()
		status.Mirrors = s.status() // under the names of their resources
		for _, m := range status.Mirrors {
			// Declared and syncing mirrors are not reported; if they fail, that is a problem.
			if text := m.State.String(); m.State >= tarn.Live && text != last[m.Name] {
				last[m.Name] = text
				e.say("%s: %s, %s", m.Name, text, counted(m.Objects, "object"))
			}
		}
		present := map[string]bool{}
		for _, p := range console.Problems(status) {
			id := p.Subject + varying.ReplaceAllString(p.What, "")
			if present[id] = true; !reported[id] {
				e.say("%s: %s %s", p.Subject, p.What, p.Do)
			}
		}
		reported = present
	}
}

// waiting names the lists that are not complete. follow reports failures.
func (s *mirrorService) waiting() string {
	var names []string
	for _, m := range s.status() {
		if m.Cause == nil && !m.Informer.Synced {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "waiting to list " + strings.Join(names, ", ")
}
