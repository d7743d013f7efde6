package tarn

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
)

// Fleet is a set of clusters that come and go while it runs, and the controllers that work on
// all of them. Create its controllers with [NewFleetController], add clusters with [Fleet.Add],
// and start everything with [Fleet.Run].
//
//   - Each cluster syncs, fails and stops on its own. One whose server does not answer delays none
//     of the others.
//   - With [WithLeaderElection] a cluster's objects are reconciled only while this process holds
//     the lease in that cluster. Different processes may lead in different clusters.
//   - Run owns every goroutine and returns when the last one has ended.
//
// All methods are safe for concurrent use.
//
// Rejected: a reconcile function for all clusters that looks up clients by the cluster's name. Each
// program would need its own synchronized map of typed clients, and a lookup can fail when the
// cluster is removed meanwhile.
type Fleet struct {
	registry *prometheus.Registry
	exporter *metrics.Exporter
	work     *controllers

	mu      sync.Mutex // guards all below
	phase   phase
	run     context.Context // set by Run
	joining []*fleetController
	members map[string]*member
	running sync.WaitGroup
}

// member is a cluster of a fleet. The fleet's lock guards all fields except the first four, which do
// not change.
type member struct {
	name    string
	cluster *Cluster
	console http.Handler
	ended   chan struct{} // closed when the cluster's Run has ended

	joined   bool               // it may be started
	stop     context.CancelFunc // nil before it is started
	removing bool
	err      error // of its Run
}

// NewFleet returns a fleet without clusters.
func NewFleet() *Fleet {
	f := &Fleet{registry: newRegistry(), work: &controllers{}, members: map[string]*member{}}
	f.exporter, _ = metrics.New(f.labelled("")) // fails only for a name that is already registered
	f.exporter.AddCluster(fleetWork{f.work})
	return f
}

// labelled returns a registerer of the metrics of a cluster.
func (f *Fleet) labelled(cluster string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"cluster": cluster}, f.registry)
}

// Add adds a cluster that has not been started; the fleet runs it. Add calls the join functions of
// all controllers and returns their errors, and does not wait for the cluster. The name must be
// unique in the fleet and appears in keys, logs, metrics and Status.
func (f *Fleet) Add(name string, c *Cluster) error {
	m := &member{name: name, cluster: c, console: console.Handler(c, c.opts.console), ended: make(chan struct{})}
	joining, err := f.reserve(m)
	if err == nil {
		for _, ctl := range joining {
			if err = ctl.add(m); err != nil {
				break
			}
		}
		err = f.admit(m, err)
	}
	if err != nil {
		return fmt.Errorf("tarn: fleet: add %q: %w", name, err)
	}
	return nil
}

// reserve reserves the name of a cluster, and returns the controllers that it joins.
func (f *Fleet) reserve(m *member) ([]*fleetController, error) {
	if m.name == "" {
		return nil, errors.New("a cluster needs a name")
	}
	if err := m.cluster.isFresh(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.members[m.name] != nil:
		return nil, errors.New("the fleet has a cluster of that name")
	case f.phase == stopped:
		return nil, errors.New("the fleet's Run has ended")
	}
	f.members[m.name] = m
	return f.joining, nil
}

// admit starts a cluster that has joined the controllers, or releases its name after an error.
func (f *Fleet) admit(m *member, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.members[m.name] != m {
		err = errors.New("the cluster was removed meanwhile")
	}
	if err == nil {
		err = f.labelled(m.name).Register(m.cluster.exporter)
	}
	if err != nil {
		f.drop(m)
		return err
	}
	m.joined = true
	f.start(m)
	return nil
}

// start runs a cluster if the fleet runs. The caller holds the lock.
func (f *Fleet) start(m *member) {
	if f.phase != running || !m.joined {
		return
	}
	ctx, stop := context.WithCancel(f.run)
	m.stop = stop
	f.running.Go(func() {
		defer close(m.ended)
		defer stop()
		err := m.cluster.Run(ctx)
		if err != nil {
			m.cluster.opts.logger.Error("a cluster of the fleet has failed; remove it, and add it again with a new connection",
				"cluster", m.name, "error", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.err = err; m.removing {
			f.drop(m)
		}
	})
}

// drop removes a cluster that does not run. Further calls do nothing. The caller holds the lock.
func (f *Fleet) drop(m *member) {
	if f.members[m.name] == m {
		delete(f.members, m.name)
		if m.joined {
			f.labelled(m.name).Unregister(m.cluster.exporter)
		}
	}
}

// Remove stops a cluster: running reconciles of its keys are cancelled, the other keys are dropped,
// and its mirrors stop. It returns when the cluster's Run has ended; the error is that of Run. If
// ctx is done first, Remove returns its cause, and the cluster ends without it. A reconcile of the
// same cluster may call Remove with its own context.
func (f *Fleet) Remove(ctx context.Context, name string) error {
	f.mu.Lock()
	m := f.members[name]
	switch {
	case m == nil:
		f.mu.Unlock()
		return fmt.Errorf("tarn: fleet: remove %q: there is no such cluster", name)
	case m.stop == nil:
		f.drop(m)
		f.mu.Unlock()
		return nil
	}
	m.removing = true
	m.stop()
	f.mu.Unlock()
	select {
	case <-m.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(m)
	return m.err
}

// Cluster returns the cluster with the given name.
func (f *Fleet) Cluster(name string) (c *Cluster, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[name]; m != nil {
		return m.cluster, true
	}
	return nil, false
}

// Run runs all clusters and controllers, including clusters added later, until the context is done.
// Then the controllers stop as controller.Options.Grace describes, and when they have ended the
// clusters. A cluster that fails is logged and listed by Status, and ends neither Run nor the other
// clusters. The error is that of a controller. A fleet runs once.
func (f *Fleet) Run(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	f.mu.Lock()
	if f.phase != fresh {
		f.mu.Unlock()
		return errors.New("tarn: Fleet.Run was called before")
	}
	f.phase, f.run = running, run
	for _, m := range f.members {
		f.start(m)
	}
	f.mu.Unlock()
	err := f.work.Run(ctx)
	f.mu.Lock()
	f.phase = stopped
	f.mu.Unlock()
	stop()
	f.running.Wait()
	if err != nil {
		return fmt.Errorf("tarn: fleet: %w", err)
	}
	return nil
}

// FleetStatus is a report on a fleet.
type FleetStatus struct {
	// Clusters, sorted by name.
	Clusters []MemberStatus
	// Controllers, in the order in which they were created. Their keys are of type [FleetKey].
	Controllers []controller.Status
}

// MemberStatus is a report on a cluster of a fleet.
type MemberStatus struct {
	Name string
	// Removing is true while the cluster stops because of [Fleet.Remove].
	Removing bool
	// Err is why the cluster's Run has failed; nil otherwise. [Fleet.Remove] removes it.
	Err error
	// Cluster is the report on the cluster itself.
	Cluster Status
}

// String returns a line for each cluster that failed and for each mirror of the others.
func (s FleetStatus) String() string {
	var lines []string
	for _, m := range s.Clusters {
		if m.Err != nil {
			lines = append(lines, fmt.Sprintf("%s: failed: %v", m.Name, m.Err))
			continue
		}
		for _, mirror := range m.Cluster.Mirrors {
			lines = append(lines, m.Name+": "+mirror.String())
		}
	}
	return strings.Join(lines, "\n")
}

// Status returns the current status.
func (f *Fleet) Status() FleetStatus {
	st := FleetStatus{Controllers: f.work.statuses()}
	f.mu.Lock()
	members := maps.Clone(f.members)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		st.Clusters = append(st.Clusters, MemberStatus{Name: name, Removing: members[name].removing, Err: members[name].err})
	}
	f.mu.Unlock()
	for i := range st.Clusters {
		m := &st.Clusters[i]
		m.Cluster = members[m.Name].cluster.Status()
	}
	return st
}

// Serve serves [Fleet.Handler] on an address such as ":8080" until the context is done. It logs to
// [slog.Default].
func (f *Fleet) Serve(ctx context.Context, addr string) error {
	return (&console.Server{Addr: addr, Handler: f.Handler(), Logger: slog.Default()}).Run(ctx)
}

// Handler is [Cluster.Handler] for a fleet. The metrics have the label cluster, which is empty for
// those of the controllers' queues. /readyz does not depend on the clusters, because they come and
// go, and a program that works on several is ready while one of them is not. /debug/tarn/ shows the
// fleet's controllers to those whom the zero console.Guard allows, and links to the console of each
// cluster at /debug/tarn/NAME/, whose [WithConsole] applies.
func (f *Fleet) Handler() *http.ServeMux {
	mux := console.Mux(console.Options{Cluster: fleetWork{f.work}, Metrics: f.registry, Profiling: true})
	mux.Handle("GET /debug/tarn/{$}", console.Guard{}.Wrap(http.HandlerFunc(f.index)))
	mux.HandleFunc("/debug/tarn/{cluster}/{path...}", f.console)
	return mux
}

// fleetIndex parses the page for each request, so that a program without a fleet does not link
// html/template.
func fleetIndex() *template.Template {
	return template.Must(template.New("fleet").Funcs(template.FuncMap{"segment": url.PathEscape}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Tarn fleet</title>
<h1>Clusters</h1>
<ul>{{range .Clusters}}<li><a href="./{{segment .Name}}/">{{.Name}}</a>{{if .Err}}: failed: {{.Err}}{{else if .Removing}}: being removed{{else if not .Cluster.Live}}: not live{{end}}{{else}}<li>none{{end}}</ul>
<h1>Controllers</h1>
<ul>{{range .Controllers}}<li><pre>{{.String}}</pre>{{else}}<li>none{{end}}</ul>
`))
}

// index shows the clusters and the fleet's controllers.
func (f *Fleet) index(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = fleetIndex().Execute(w, f.Status()) // fails only if the client disconnected
}

// console passes a request on to the console of a cluster.
func (f *Fleet) console(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	m := f.members[r.PathValue("cluster")]
	f.mu.Unlock()
	if m == nil {
		http.NotFound(w, r)
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = "/"+r.PathValue("path"), ""
	m.console.ServeHTTP(w, inner)
}

// Registry returns the registry behind /metrics, for the program's own metrics.
func (f *Fleet) Registry() *prometheus.Registry { return f.registry }

// fleetWork is a fleet's controllers as package metrics sees them.
type fleetWork struct{ *controllers }

// Informers implements [metrics.Cluster].
func (fleetWork) Informers() []metrics.Informer { return nil }
