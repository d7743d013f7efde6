package main

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// operating returns the queries of the alert rules and of the dashboard, by what they are for.
func operating(t *testing.T) map[string]string {
	t.Helper()
	load := func(file string, unmarshal func([]byte, any) error, into any) {
		data, err := os.ReadFile("../../docs/operating/" + file)
		if err == nil {
			err = unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var alerts struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	load("alerts.yaml", func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) }, &alerts)
	all := map[string]string{}
	readme, err := os.ReadFile("../../docs/operating/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts.Groups[0].Rules {
		if r.Expr == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%+v is incomplete", r)
		}
		if !strings.Contains(string(readme), "`"+r.Alert+"`") {
			t.Errorf("docs/operating/README.md does not list %s", r.Alert)
		}
		all[r.Alert] = r.Expr
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	load("dashboard.json", json.Unmarshal, &dashboard)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all[p.Title+": "+target.Expr] = target.Expr
		}
	}
	if len(all) < 30 {
		t.Errorf("only %d queries", len(all))
	}
	return all
}

func TestAlertsAndDashboardUseMetricsOfTheDemo(t *testing.T) {
	e := &env{out: newPrinter(io.Discard), err: newPrinter(io.Discard)}
	d := &demo{flags: demoFlags{objects: 60, seed: 1, listen: "127.0.0.1:0"}}
	if err := d.build(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	defer d.console.Close()
	defer d.server.Close()
	table, err := os.ReadFile("../../docs/operating/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	// The table lists all metrics, also those without a value yet; the registry has those of the
	// process. A test of package metrics compares the table with what is exported.
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+)").FindAllStringSubmatch(string(table), -1) {
		if known[m[1]] = true; m[2] == "histogram" {
			known[m[1]+"_bucket"] = true
		}
	}
	families, err := d.cluster.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		known[f.GetName()] = true
	}
	metric := regexp.MustCompile(`\b(?:tarn|controller_runtime|workqueue|leader_election|rest_client|process|go)_[a-z_]+`)
	for what, expr := range operating(t) {
		names := metric.FindAllString(expr, -1)
		if len(names) == 0 || strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
			t.Errorf("%s: %s", what, expr)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", what, name)
			}
		}
	}
}
