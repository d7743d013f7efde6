package rules

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
)

// grafana is the part of a dashboard that a query depends on.
type grafana struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name, AllValue string
			Query          any
		}
	}
}

// instant runs a query.
func instant(t *testing.T, data *teststorage.TestStorage, expr string, at time.Time) promql.Vector {
	t.Helper()
	q, err := newEngine(t).NewInstantQuery(t.Context(), data, nil, expr, at)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	v, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(v)
}

var (
	labelValues = regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z]+)\)$`)
	legendLabel = regexp.MustCompile(`{{([a-z_]+)}}`)
)

// dashboard runs every query as Grafana does with all jobs selected. Each must have data, and a value
// above zero unless that would be trouble. A program without Tarn, which exports some of the metrics
// too, must not appear.
func dashboard(t *testing.T, data *teststorage.TestStorage, at time.Time) {
	var d grafana
	if text, err := os.ReadFile(operating + "dashboard.json"); err != nil {
		t.Fatal(err)
	} else if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	foreign(t, data, at)
	jobs := ""
	for _, v := range d.Templating.List {
		query, _ := v.Query.(map[string]any)
		text, _ := query["query"].(string)
		m := labelValues.FindStringSubmatch(text)
		if v.Name != "job" || m == nil {
			continue
		}
		if jobs = v.AllValue; jobs == "" {
			for _, s := range instant(t, data, "group by ("+m[2]+") ("+m[1]+")", at) {
				jobs += "|" + s.Metric.Get(m[2])
			}
			jobs = "(" + strings.TrimPrefix(jobs, "|") + ")"
		}
	}
	n := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			n++
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", jobs).Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: %s has an unknown variable", p.Title, expr)
			}
			var metrics []string
			parser.Inspect(must(queries.ParseExpr(expr)), func(n parser.Node, _ []parser.Node) error {
				if s, ok := n.(*parser.VectorSelector); ok {
					metrics = append(metrics, s.Name)
				}
				return nil
			})
			found, above := instant(t, data, expr, at), false
			for _, s := range found {
				above = above || s.F > 0
				for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					if v := s.Metric.Get(label[1]); v == "" || v == "foreign" {
						t.Errorf("%s: %s: the label %s is %q", p.Title, expr, label[1], v)
					}
				}
			}
			if len(found) == 0 || !above && !mayBe0(metrics) {
				t.Errorf("%s: %s: %v", p.Title, expr, found)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d queries", n)
	}
}

// foreign adds series of a program without Tarn.
func foreign(t *testing.T, data *teststorage.TestStorage, at time.Time) {
	t.Helper()
	app := data.Appender(t.Context())
	for i, ago := range []time.Duration{2 * time.Minute, time.Minute, 0} {
		for _, name := range []string{"workqueue_depth", "controller_runtime_reconcile_total", "leader_election_master_status", "rest_client_requests_total", "process_resident_memory_bytes"} {
			l := labels.FromStrings(labels.MetricName, name, "job", "foreign", "instance", "foreign", "controller", "foreign", "result", "foreign", "name", "foreign", "code", "foreign")
			if _, err := app.Append(0, l, at.Add(-ago).UnixMilli(), float64(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}
