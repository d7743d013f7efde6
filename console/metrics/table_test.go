package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/operating/metrics.md")

// grouped is a membership whose status does not change.
type grouped struct{ status shard.Status }

func (g grouped) Status() shard.Status { return g.status }

// everything returns a registry that has a series of each metric.
func everything(t *testing.T) *prometheus.Registry {
	m, reg := newExporter(t)
	inf := informer.Status{Name: "pods", Audit: &informer.Audit{Time: time.Unix(1, 0)}, Subscribers: []informer.SubscriptionStatus{{Name: "web"}}}
	inf.Store.Indexes = []store.IndexStats{{Name: "node"}}
	inf.Sources = []informer.SourceStatus{{Reflector: reflector.Status{
		LastEvent: time.Unix(1, 0), LastList: time.Unix(1, 0),
		Counts: reflector.Counts{Ended: map[reflector.Reason]int64{"closed": 1}},
	}}}
	m.AddCluster(metrics.Static([]metrics.Informer{&still{inf}}, []metrics.Controller{&fixed{controller.Status{Name: "web"}}}))
	m.Queue("web").Waited(time.Second)
	_ = m.Leadership("shop", elected{})
	m.AddShards(grouped{shard.Status{Group: "shop/web"}})
	_, reconciled := m.Reconcile(context.Background(), controller.ReconcileStart{Controller: "web"})
	reconciled(controller.ReconcileEnd{Outcome: controller.OutcomePanic, Err: errors.New("oops")})
	_, answered := m.Request(context.Background(), wire.AttemptStart{Method: "GET", Host: "server"})
	answered(wire.AttemptEnd{Code: 200})

	descs := make(chan *prometheus.Desc, 1000)
	m.Describe(descs)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(descs) {
		t.Errorf("%d metrics are described and %d exported", len(descs), len(families))
	}
	return reg
}

func TestTheNamesAreAsPrometheusAdvises(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// ours are the metrics that have the prefix of another project but no counterpart there.
var ours = []string{"workqueue_delayed", "workqueue_dropped_total", "workqueue_processing"}

// counterpart returns the project that exports a metric of this name.
func counterpart(name string) string {
	if strings.HasPrefix(name, "tarn_") || slices.Contains(ours, name) {
		return "–"
	}
	return "controller-runtime"
}

func TestTheTableInTheDocumentationIsComplete(t *testing.T) {
	families, err := everything(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	table := "| metric | type | labels | meaning | counterpart |\n|---|---|---|---|---|\n"
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(labels, ", "), strings.ReplaceAll(f.GetHelp(), "<error>", "`<error>`"), counterpart(f.GetName()))
	}
	const path, begin, end = "../../docs/operating/metrics.md", "<!-- table -->\n", "<!-- end of table -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", path, begin, end)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, got); diff != "" {
		t.Errorf("%s (run with -rewrite to update it):\n%s", path, diff)
	}
}
