package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// forward returns a proxy of a server that passes on events as they come.
func forward(t *testing.T, server *apiserver.Server) http.Handler {
	t.Helper()
	to, err := url.Parse("http://" + server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	return proxy
}

// TestTheTableContinuesThroughCutsAnd410 is TestWatchContinuesThroughCutsAnd410 for the server's
// tables, whose columns are only in the first event of a watch.
func TestTheTableContinuesThroughCutsAnd410(t *testing.T) {
	t.Parallel() // it waits most of the time
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, pod("web"), pod("doomed"))
	l := start(t, command(t, "watch", "pods", "--kubeconfig", kubeconfig))
	l.err.count(t, "pods: watching, 2 objects\n", 1)

	eventually(t, func() bool { return server.Cut("pods") == 1 })
	replace(t, server, running("web", 1))
	l.out.count(t, "MODIFIED   web      1/1     Running   1", 1)
	l.err.count(t, "pods: live again after ", 1)

	remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "pods", Verb: "watch"})
	if err != nil {
		t.Fatal(err)
	}
	server.Cut("pods")
	l.err.count(t, "pods: disconnected: server rejected watch pods in default: ", 1)
	replace(t, server, running("web", 2))
	if err := server.Delete(pod("doomed")); err != nil {
		t.Fatal(err)
	}
	server.Compact(0)
	remove()
	l.err.count(t, "pods: the resource version expired (410); relisting\n", 1)
	l.out.count(t, "Running   2", 1)
	l.out.count(t, "DELETED (last known)", 1)
	if r := l.interrupt(t); r.code != exitDone || strings.Count(r.out, "RESTARTS") != 1 {
		t.Errorf("%v", r)
	}
}

func TestTablesSurviveFaults(t *testing.T) {
	for _, kind := range []apiserver.FaultKind{
		apiserver.TruncateBody, apiserver.CorruptFrame, apiserver.TruncateFrame, apiserver.GoneEvent, apiserver.ErrorEvent,
		apiserver.DuplicateEvent, apiserver.StaleEvent, apiserver.EndWatch, apiserver.CutWatch, apiserver.EmptyPage,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, kubeconfig := serve(t, apiserver.Options{})
			create(t, server, pod("web"))
			if _, err := server.Inject(apiserver.Fault{Kind: kind, Resource: "pods", Times: 1, Optional: true}); err != nil {
				t.Fatal(err)
			}
			l := start(t, command(t, "watch", "pods", "--kubeconfig", kubeconfig))
			l.out.count(t, "Pending", 1)
			replace(t, server, running("web", 1))
			l.out.count(t, "Running   1", 1)
			replace(t, server, running("web", 2))
			l.out.count(t, "Running   2", 1)
			if r := l.interrupt(t); r.code != exitDone {
				t.Errorf("%v", r)
			}
		})
	}
}

func TestCustomResourcesHaveTheColumnsOfTheirDefinition(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	definition := parse(t, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lakes.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"lakes","singular":"lake","kind":"Lake"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
		"additionalPrinterColumns":[{"name":"Depth","type":"integer","jsonPath":".spec.depth"},{"name":"Colour","type":"string","jsonPath":".spec.colour","priority":1}]}]}}`)
	create(t, server, definition, parse(t, `{"apiVersion":"example.com/v1","kind":"Lake","metadata":{"namespace":"default","name":"tarn"},"spec":{"depth":3000000,"colour":"blue"}}`))
	for output, want := range map[string]string{
		"table": "NAME   DEPTH\ntarn   3000000\n",
		"wide":  "NAME   DEPTH     COLOUR\ntarn   3000000   blue\n",
	} {
		if r := call(t.Context(), "watch", "lakes", "--once", "-o", output, "--kubeconfig", kubeconfig); r.out != want {
			t.Errorf("-o %s: %v", output, r)
		}
	}
}

// TestAServerWithoutTablesHasNamesAndAges uses a server that ignores what the client accepts.
func TestAServerWithoutTablesHasNamesAndAges(t *testing.T) {
	server, _ := serve(t, apiserver.Options{})
	create(t, server, pod("web"))
	proxy := forward(t, server)
	plainly := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Set("Accept", strings.ReplaceAll(req.Header.Get("Accept"), asTable, "application/json"))
		proxy.ServeHTTP(w, req)
	}))
	defer plainly.Close()
	l := start(t, command(t, "watch", "pods", "-A", "--kubeconfig", kubeconfigFor(t, plainly.URL)))
	l.out.count(t, "default     web    ", 1)
	replace(t, server, running("web", 1))
	l.out.count(t, "MODIFIED   default     web", 1)
	if r := l.interrupt(t); !strings.HasPrefix(r.out, "EVENT      NAMESPACE   NAME   AGE\n") {
		t.Errorf("%v", r)
	}
}

// TestBrokenTablesAreErrors sends what no API server sends.
func TestBrokenTablesAreErrors(t *testing.T) {
	const (
		meta  = `"object":{"metadata":{"name":"web","namespace":"default","uid":"1","resourceVersion":"5"}}`
		table = `{"kind":"Table","metadata":{"resourceVersion":"9"},"rows":[`
	)
	for body, want := range map[string]error{
		table + `{"cells":["web"],` + meta + `}]}`:   nil,
		`{"kind":"Table","metadata":{},"rows":null}`: nil,
		`[]`:                                     object.ErrCorrupt,
		`{}`:                                     object.ErrCorrupt,
		`{"kind":"Status"}`:                      object.ErrWrongKind,
		`{"kind":1}`:                             object.ErrCorrupt,
		`{"kind":"Table"x}`:                      object.ErrCorrupt,
		table + `{"cells":["web"]}]}`:            object.ErrCorrupt,
		table + `{"cells":"web",` + meta + `}]}`: object.ErrCorrupt,
		table + `{"cells":["web"],` + meta + `}`: io.ErrUnexpectedEOF,
		table + `{"cells":["web"],` + meta + `}]`: io.ErrUnexpectedEOF,
		``: io.ErrUnexpectedEOF,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		}))
		client, err := wire.New(&rest.Config{Host: server.URL}, wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		source := &tableSource{client: client, res: secrets}
		if _, err := source.List(t.Context(), object.ListOptions{}, nil, func(object.Item[*tableRow]) error { return nil }); !errors.Is(err, want) {
			t.Errorf("%.100s: %v, want %v", body, err, want)
		}
		client.CloseIdleConnections()
		server.Close()
	}
}

func TestLiveRowsOfSeveralResourcesHaveTheirHeaders(t *testing.T) {
	cell := func(name string) *tableRow {
		return &tableRow{columns: fallback, cells: []any{name, "1s"}}
	}
	var text page
	made := &table{rendering: rendering{output: "table", several: true}, sheets: map[object.Resource]*sheet{}}
	for _, h := range []objectChange{{res: secrets, row: cell("a"), initial: true}, {res: secrets, row: cell("longer")}, {res: configMaps, row: cell("c")}, {res: secrets, row: cell("d")}} {
		if err := made.render(&text, []objectChange{h}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `EVENT      NAME       AGE
-          secret/a   1s
MODIFIED   secret/longer   1s

EVENT      NAME          AGE
MODIFIED   configmap/c   1s

EVENT      NAME            AGE
MODIFIED   secret/d        1s
`
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", text.String(), want)
	}
}
