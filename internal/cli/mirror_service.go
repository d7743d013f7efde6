package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/hostcheck"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// mirrorService serves mirrors over HTTP. Each response is from one snapshot.
//
// It does not authenticate clients, so it restricts access to this machine: it listens on
// loopback by default, and the Host header must name this machine or an allowed host, which
// protects against DNS rebinding by web pages.
type mirrorService struct {
	cluster  *tarn.Cluster
	mirrors  []*mirrored
	registry *prometheus.Registry
	hosts    []string
	streams  chan struct{} // has a value for each open event stream
}

// mirrored is a mirrored resource.
type mirrored struct {
	wire.Discovered
	handle  *tarn.Mirror[*unstructured.Unstructured]
	labels  *store.LabelIndex[*unstructured.Unstructured]
	indexes map[string]*store.Index[*unstructured.Unstructured, string]

	resumable resumable
}

// Name returns the plural, qualified with the group if there is one, for responses and
// metrics.
func (m *mirrored) Name() string {
	if m.Group == "" {
		return m.Resource.Resource
	}
	return m.Resource.Resource + "." + m.Group
}

// Status implements [metrics.Informer]. It reports indexes under their names from --index
// instead of their paths.
func (m *mirrored) Status() informer.Status {
	status := m.handle.Informer().Status()
	given := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(m.indexes)) {
		path := m.indexes[name].Name()
		given[path] = append(given[path], name)
	}
	status.Store.Indexes = slices.Clone(status.Store.Indexes)
	for i := range status.Store.Indexes {
		x := &status.Store.Indexes[i]
		if names := given[x.Name]; len(names) > 0 { // indexes with the same path have the same status
			given[x.Name], x.Name = names[1:], names[0]
		}
	}
	return status
}

// called reports whether name refers to the resource.
func (m *mirrored) called(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(append([]string{m.Name(), m.Resource.Resource, m.Singular, strings.ToLower(m.Kind)}, m.ShortNames...), name)
}

func (s *mirrorService) names() (names []string) {
	for _, m := range s.mirrors {
		names = append(names, m.Name())
	}
	return names
}

// Informers implements [metrics.Cluster].
func (s *mirrorService) Informers() (all []metrics.Informer) {
	for _, m := range s.mirrors {
		all = append(all, m)
	}
	return all
}

// Controllers implements [metrics.Cluster].
func (s *mirrorService) Controllers() []metrics.Controller { return nil }

func (s *mirrorService) handler() http.Handler {
	mux := http.NewServeMux()
	common := console.Mux(console.Options{Cluster: s, Metrics: s.registry})
	mux.Handle("GET /healthz", common)
	mux.Handle("GET /metrics", common)
	mux.HandleFunc("GET /readyz", checkQuery(s.ready, "live", "verbose"))
	mux.Handle("GET /debug/tarn/", http.StripPrefix("/debug/tarn", console.Handler(s.cluster)))
	mux.HandleFunc("GET /{$}", checkQuery(s.overview))
	mux.HandleFunc("GET /v1", checkQuery(s.overview))
	mux.HandleFunc("GET /v1/{resource}", checkQuery(s.about(s.list), "namespace", "labelSelector", "index", "value", "values", "limit", "continue", "watch"))
	mux.HandleFunc("GET /v1/{resource}/{name}", checkQuery(s.about(s.one)))
	mux.HandleFunc("GET /v1/{resource}/{namespace}/{name}", checkQuery(s.about(s.one)))
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		problem(w, http.StatusNotFound, "no such path: %s; see /v1 or tarn mirror --help", req.URL.Path)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !hostcheck.Trusted(req.Host, s.hosts) {
			problem(w, http.StatusForbidden, "host %q is not allowed; start tarn mirror with --allow-host to allow it", req.Host)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, "method %s not allowed: mirrors are read-only", req.Method)
			return
		}
		mux.ServeHTTP(w, req)
	})
}

// checkQuery rejects unknown and repeated parameters, since a response that ignores a
// parameter would look correct.
func checkQuery(next http.HandlerFunc, known ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		query, err := url.ParseQuery(req.URL.RawQuery)
		if err != nil {
			problem(w, http.StatusBadRequest, "invalid query: %s", lastOf(err))
			return
		}
		for _, name := range slices.Sorted(maps.Keys(query)) {
			switch {
			case len(known) == 0:
				problem(w, http.StatusBadRequest, "%s takes no parameters, got %q", req.URL.Path, name)
				return
			case !slices.Contains(known, name):
				problem(w, http.StatusBadRequest, "unknown parameter %q: must be one of %s", name, strings.Join(known, ", "))
				return
			case len(query[name]) > 1:
				problem(w, http.StatusBadRequest, "parameter %s is given more than once", name)
				return
			}
		}
		next(w, req)
	}
}

// ready reports whether all mirrors are synced, and with ?live whether they are live.
func (s *mirrorService) ready(w http.ResponseWriter, req *http.Request) {
	var live []console.Check
	for _, m := range s.status() {
		if req.URL.Query().Has("live") && m.State != tarn.Live {
			live = append(live, console.Check{Name: "live/" + m.Name, Run: func(context.Context) error {
				return fmt.Errorf("%s, %s: %s", m.State, counted(m.Objects, "object"), plain(errorText(m.Cause)))
			}})
		}
	}
	console.Readyz(s, live...).ServeHTTP(w, req)
}

// status returns the status of each mirror under its resource name.
func (s *mirrorService) status() (all []tarn.MirrorStatus) {
	for _, m := range s.mirrors {
		status := m.handle.Status()
		status.Name = m.Name()
		all = append(all, status)
	}
	return all
}

// mirrorAnswer is a mirror in the response of /v1.
type mirrorAnswer struct {
	Resource   string         `json:"resource"`
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	State      string         `json:"state"`
	Cause      string         `json:"cause,omitempty"`
	Objects    int            `json:"objects"`
	Version    object.Version `json:"version,omitempty"`
	Indexes    []string       `json:"indexes,omitempty"`
}

func (s *mirrorService) overview(w http.ResponseWriter, _ *http.Request) {
	out := []mirrorAnswer{}
	for _, m := range s.mirrors {
		status := m.handle.Status()
		snap := m.handle.Snapshot()
		a := mirrorAnswer{
			Resource: m.Name(), APIVersion: m.GVK().GroupVersion().String(), Kind: m.Kind,
			State: status.State.String(), Objects: snap.Len(), Version: snap.Version(),
		}
		snap.Release()
		if status.Cause != nil {
			a.Cause = errorText(status.Cause)
		}
		for name := range m.indexes {
			a.Indexes = append(a.Indexes, name)
		}
		slices.Sort(a.Indexes)
		out = append(out, a)
	}
	answer(w, map[string]any{"mirrors": out})
}

// about looks up the mirror of a request. It responds with 503 until the mirror is synced,
// because 404 would be wrong.
func (s *mirrorService) about(f func(w http.ResponseWriter, req *http.Request, m *mirrored)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		name := req.PathValue("resource")
		i := slices.IndexFunc(s.mirrors, func(m *mirrored) bool { return m.called(name) })
		if i < 0 {
			problem(w, http.StatusNotFound, "%q is not mirrored; mirrored resources: %s", name, strings.Join(s.names(), ", "))
			return
		}
		m := s.mirrors[i]
		if status := m.handle.Status(); !status.Informer.Synced {
			why := "listing"
			if status.Cause != nil {
				why = errorText(status.Cause)
			}
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusServiceUnavailable, "the mirror of %s is not synced: %s", m.Name(), why)
			return
		}
		f(w, req, m)
	}
}

func (s *mirrorService) one(w http.ResponseWriter, req *http.Request, m *mirrored) {
	key := object.Key{Namespace: req.PathValue("namespace"), Name: req.PathValue("name")}
	switch {
	case m.Namespaced && key.Namespace == "":
		problem(w, http.StatusBadRequest, "%s is namespaced: use /v1/%[1]s/NAMESPACE/%s or /v1/%[1]s?namespace=%[2]s", m.Name(), key.Name)
		return
	case !m.Namespaced && key.Namespace != "":
		problem(w, http.StatusBadRequest, "%s is cluster-scoped: use /v1/%[1]s/%s", m.Name(), key.Name)
		return
	}
	obj, ok := m.handle.Get(key)
	if !ok {
		problem(w, http.StatusNotFound, "%s %s not found", m.Singular, key)
		return
	}
	answer(w, obj.Object)
}

// list streams the objects, so that a long response is never buffered completely.
func (s *mirrorService) list(w http.ResponseWriter, req *http.Request, m *mirrored) {
	query := req.URL.Query()
	if query.Has("watch") {
		s.watch(w, req, m)
		return
	}
	snap := m.handle.Snapshot()
	defer snap.Release()
	switch {
	case query.Has("values") && len(query) > 1:
		problem(w, http.StatusBadRequest, "values covers all objects and cannot be combined with other parameters")
		return
	case query.Has("values"):
		m.values(w, snap, query.Get("values"))
		return
	case query.Has("value") != (query.Get("index") != ""):
		problem(w, http.StatusBadRequest, "index and value must be used together: ?index=NAME&value=VALUE")
		return
	}
	limit, after := 0, object.Key{}
	var err error
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			problem(w, http.StatusBadRequest, "limit=%s is not a valid number of objects", text)
			return
		}
	}
	if text := query.Get("continue"); text != "" {
		after, err = object.Parse(text)
		if err != nil || m.Namespaced != (after.Namespace != "") {
			problem(w, http.StatusBadRequest, "invalid continue=%s for %s; use the value from the previous response", text, m.Name())
			return
		}
	}
	objs, err := m.choose(snap, query.Get("namespace"), query.Get("labelSelector"), query.Get("index"), query.Get("value"), after)
	if err != nil {
		problem(w, http.StatusBadRequest, "%s", oneLine(err.Error()))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(5 * time.Minute)) // fails only for other writers
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"resource":%s,"version":%s,"items":[`, jsonString(m.Name()), jsonString(string(snap.Version())))
	n, last, more := 0, object.Key{}, false
	for obj := range objs {
		if more = limit > 0 && n == limit; more {
			break
		}
		data, err := jsonText(obj.Object)
		if err == nil && n > 0 {
			_, err = io.WriteString(w, ",\n")
		}
		if err == nil {
			_, err = io.WriteString(w, data)
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a partial response must not look complete
		}
		n, last = n+1, keyOf(obj)
	}
	end := fmt.Sprintf(`],"count":%d`, n)
	if more {
		end += `,"continue":` + jsonString(last.String())
	}
	io.WriteString(w, end+"}\n") // fails only if the client disconnected
}

func keyOf(obj *unstructured.Unstructured) object.Key {
	return object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// choose returns the selected objects in key order, starting after a key.
func (m *mirrored) choose(snap store.Snapshot[*unstructured.Unstructured], namespace, selector, index, value string, after object.Key) (iter.Seq[*unstructured.Unstructured], error) {
	match, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("invalid label selector %q: %w", selector, err)
	}
	var objs iter.Seq[*unstructured.Unstructured]
	switch {
	case index != "":
		x := m.indexes[index]
		if x == nil {
			return nil, fmt.Errorf("%s has no index %q; start tarn mirror with --index %[2]s=PATH", m.Name(), index)
		}
		objs = ordered(x.Get(snap, value))
	case !match.Empty():
		objs = ordered(m.labels.Select(snap, match))
	case namespace != "":
		objs = ordered(snap.Namespace(namespace))
	default:
		return snap.After(after, 0), nil
	}
	return func(yield func(*unstructured.Unstructured) bool) {
		for obj := range objs {
			if key := keyOf(obj); namespace != "" && key.Namespace != namespace || key.Compare(after) <= 0 || !match.Matches(labels.Set(obj.GetLabels())) {
				continue
			}
			if !yield(obj) {
				return
			}
		}
	}, nil
}

// ordered sorts objects by key, since index and namespace lookups are unordered.
func ordered(objs iter.Seq[*unstructured.Unstructured]) iter.Seq[*unstructured.Unstructured] {
	return slices.Values(slices.SortedFunc(objs, func(a, b *unstructured.Unstructured) int { return keyOf(a).Compare(keyOf(b)) }))
}

// values responds with the values of an index.
func (m *mirrored) values(w http.ResponseWriter, snap store.Snapshot[*unstructured.Unstructured], name string) {
	x := m.indexes[name]
	if x == nil {
		problem(w, http.StatusBadRequest, "%s has no index %q; start tarn mirror with --index %[2]s=PATH", m.Name(), name)
		return
	}
	counts := map[string]int{}
	for value := range x.Keys(snap) {
		counts[value] = x.Count(snap, value)
	}
	answer(w, map[string]any{"resource": m.Name(), "version": snap.Version(), "index": name, "values": counts})
}

func answer(w http.ResponseWriter, v any) {
	data, err := jsonText(v)
	if err != nil {
		problem(w, http.StatusInternalServerError, "cannot encode the response: %s", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, data+"\n") // fails only if the client disconnected
}

// problem responds with an error.
func problem(w http.ResponseWriter, code int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	io.WriteString(w, `{"error":`+jsonString(fmt.Sprintf(format, args...))+"}\n") // fails only if the client disconnected
}
