package rules

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
)

const operating = "../../docs/operating/"

var queries = parser.NewParser(parser.Options{})

// loadRules returns the alert rules of the documentation, which must be valid and complete.
func loadRules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(operating+"alerts.yaml", false, model.LegacyValidation, queries, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	readme, err := os.ReadFile(operating + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks a severity, a summary or a description", r.Alert)
			}
			if !strings.Contains(string(readme), "`"+r.Alert+"`") {
				t.Errorf("docs/operating/README.md does not list %s", r.Alert)
			}
			all = append(all, r)
		}
	}
	return all
}

func newEngine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: queries})
}

// fired is an alert that fired.
type fired struct {
	at      time.Time // of the first time
	summary string
}

// evaluate evaluates a rule every 30 seconds, and returns what fired, in order.
func evaluate(t *testing.T, r rulefmt.Rule, data storage.Queryable, from, to time.Time) (all []fired) {
	t.Helper()
	expr, err := queries.ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	rule := promrules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), labels.FromMap(r.Labels),
		labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	query := promrules.EngineQueryFunc(newEngine(t), data)
	seen := map[string]bool{}
	for at := from; !at.After(to); at = at.Add(30 * time.Second) {
		if _, err := rule.Eval(t.Context(), 0, at, query, nil, 0); err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		for _, a := range rule.ActiveAlerts() {
			if id := a.Labels.String(); a.State == promrules.StateFiring && !seen[id] {
				seen[id] = true
				all = append(all, fired{at, a.Annotations.Get("summary")})
			}
		}
	}
	return all
}

// never is the time of an alert that does not fire.
const never = time.Duration(-1)

// cases has series for each alert, with a sample a minute from 0 on, and how soon it must fire.
var cases = map[string][]struct {
	what    string
	series  string
	by      time.Duration
	summary string
}{
	"TarnMirrorNotSynced": {
		{"never synced", `tarn_informer_synced{informer="pods"} 0x60`, 5 * time.Minute, "The mirror pods has never synced."},
		{"a slow first list", `tarn_informer_synced{informer="pods"} 0x4 1x60`, never, ""},
	},
	"TarnMirrorStale": {
		{"no watch after 5 minutes", "tarn_informer_live{informer=\"pods\"} 1x4 0x60\ntarn_informer_synced{informer=\"pods\"} 1x60", 15 * time.Minute, "The mirror pods receives no changes."},
		{"a restart of the API server", "tarn_informer_live{informer=\"pods\"} 1x4 0x8 1x60\ntarn_informer_synced{informer=\"pods\"} 1x60", never, ""},
		{"not synced", "tarn_informer_live{informer=\"pods\"} 0x60\ntarn_informer_synced{informer=\"pods\"} 0x60", never, ""},
	},
	"TarnRelisting": {
		{"a list every 2 minutes", `tarn_reflector_lists_total{informer="pods",namespace=""} 0+0.5x90`, 35 * time.Minute, "The mirror pods lists again and again."},
		{"a list every 10 minutes", `tarn_reflector_lists_total{informer="pods",namespace=""} 0+0.1x90`, never, ""},
		{"one list", `tarn_reflector_lists_total{informer="pods",namespace=""} 0 1x90`, never, ""},
	},
	"TarnObjectsQuarantined": {
		{"two objects", `tarn_informer_quarantined_objects{informer="pods"} 2x60`, 15 * time.Minute, "2 objects of pods cannot be decoded or transformed."},
		{"one that was fixed", `tarn_informer_quarantined_objects{informer="pods"} 1x10 0x60`, never, ""},
	},
	"TarnObjectsRefused": {
		{"one batch", `tarn_informer_refused_batches_total{informer="pods"} 0x10 1x60`, 12 * time.Minute, "The store of pods rejected objects."},
		{"none", `tarn_informer_refused_batches_total{informer="pods"} 0x60`, never, ""},
	},
	"TarnMirrorDiffers": {
		{"one object", `tarn_informer_audit_differences{informer="pods"} 0x10 1x60`, 12 * time.Minute, "1 objects of pods are not as the server has them."},
		{"none", `tarn_informer_audit_differences{informer="pods"} 0x60`, never, ""},
	},
	"TarnSubscriberSlow": {
		{"blocked", `tarn_informer_subscriber_lag_seconds{informer="pods",subscriber="cache"} 0+60x60`, 12 * time.Minute, "The handler cache of pods is 12m 0s behind."},
		{"a little late", `tarn_informer_subscriber_lag_seconds{informer="pods",subscriber="cache"} 50x60`, never, ""},
		{"late for a moment", `tarn_informer_subscriber_lag_seconds{informer="pods",subscriber="cache"} 90x5 0x60`, never, ""},
	},
	"TarnReconcilesFail": {
		{"one key in its longest back-off", "tarn_controller_failing_keys{controller=\"web\"} 1x60\ncontroller_runtime_reconcile_errors_total{controller=\"web\"} 12x60", 15 * time.Minute, "Reconciles of web fail."},
		{"keys that fail now and then, often", "tarn_controller_failing_keys{controller=\"web\"} 0x60\ncontroller_runtime_reconcile_errors_total{controller=\"web\"} 0+60x60\ntarn_informer_synced 1x60", 20 * time.Minute, "Reconciles of web fail."},
		{"a conflict a minute", "tarn_controller_failing_keys{controller=\"web\"} 0 1 0 1 0x60\ncontroller_runtime_reconcile_errors_total{controller=\"web\"} 0+1x60\ntarn_informer_synced 1x60", never, ""},
		{"a program without Tarn", "controller_runtime_reconcile_errors_total{controller=\"web\",job=\"other\"} 0+60x60\ntarn_informer_synced{job=\"shop\"} 1x60", never, ""},
	},
	"TarnKeysGivenUp": {
		{"one key", `tarn_controller_given_up_total{controller="web"} 0x10 1x60`, 12 * time.Minute, "The controller web gave up on keys."},
		{"none", `tarn_controller_given_up_total{controller="web"} 3x60`, never, ""},
	},
	"TarnReconcileHangs": {
		{"one reconcile", "workqueue_longest_running_processor_seconds{controller=\"web\",name=\"web\"} 0+60x60\ntarn_informer_synced 1x60", 11 * time.Minute, "A reconcile of web runs for 11m 0s."},
		{"4 minutes each", "workqueue_longest_running_processor_seconds{controller=\"web\",name=\"web\"} 0 60 120 180 240 0 60 120 180 240 0 60 120 180 240 0\ntarn_informer_synced 1x60", never, ""},
		{"a program without Tarn", "workqueue_longest_running_processor_seconds{name=\"web\",job=\"other\"} 0+60x60\ntarn_informer_synced{job=\"shop\"} 1x60", never, ""},
	},
	"TarnQueueGrows": {
		{"too few workers", "workqueue_depth{controller=\"web\",name=\"web\"} 0+200x60\ntarn_informer_synced 1x60", 21 * time.Minute, "4200 keys wait in the queue of web."},
		{"after a start", "workqueue_depth{controller=\"web\",name=\"web\"} 10000-1000x9 0x60\ntarn_informer_synced 1x60", never, ""},
		{"a program without Tarn", "workqueue_depth{name=\"web\",job=\"other\"} 0+200x60\ntarn_informer_synced{job=\"shop\"} 1x60", never, ""},
	},
	"TarnWritesNotInCache": {
		{"one key", `tarn_controller_held_seconds{controller="web"} 0+60x60`, 8 * time.Minute, "A key of web is held back for 7m 0s because the cache lacks this process's own write."},
		{"short ones", `tarn_controller_held_seconds{controller="web"} 0 2 0 1 0 3 2 1x60`, never, ""},
	},
	"TarnShardsIdle": {
		{"no replica has renewed its lease", "tarn_shard_idle_slots{group=\"shop/web\",instance=\"a\"} 0x5 85x60\ntarn_shard_idle_slots{group=\"shop/web\",instance=\"b\"} 0x5 85x60", 8 * time.Minute, "No replica of the group shop/web works on 85 of 256 slots."},
		{"a replica crashed", `tarn_shard_idle_slots{group="shop/web"} 0x5 85 0x60`, never, ""},
		{"a replica is cut off", "tarn_shard_idle_slots{group=\"shop/web\",instance=\"a\"} 256x60\ntarn_shard_idle_slots{group=\"shop/web\",instance=\"b\"} 0x60", never, ""},
	},
	"TarnNoLeader": {
		{"two followers", "leader_election_master_status{name=\"web\",instance=\"a\"} 0x60\nleader_election_master_status{name=\"web\",instance=\"b\"} 0x60\ntarn_informer_synced{instance=\"a\"} 1x60\ntarn_informer_synced{instance=\"b\"} 1x60", 2 * time.Minute, "No process holds the lease web."},
		{"a leader in one of two clusters", "leader_election_master_status{name=\"web\",instance=\"a\",cluster=\"x\"} 0x60\nleader_election_master_status{name=\"web\",instance=\"a\",cluster=\"y\"} 1x60\ntarn_informer_synced{instance=\"a\"} 1x60", 2 * time.Minute, "No process holds the lease web."},
		{"a leader and a follower", "leader_election_master_status{name=\"web\",instance=\"a\"} 0x60\nleader_election_master_status{name=\"web\",instance=\"b\"} 1x60\ntarn_informer_synced{instance=\"a\"} 1x60\ntarn_informer_synced{instance=\"b\"} 1x60", never, ""},
		{"a program without Tarn", "leader_election_master_status{name=\"scheduler\",job=\"other\"} 0x60\ntarn_informer_synced{job=\"shop\"} 1x60", never, ""},
	},
}

func TestAlertsFireWhenTheyMustAndOnlyThen(t *testing.T) {
	start := time.Unix(0, 0)
	all := loadRules(t)
	for _, r := range all {
		fires, quiet := false, false
		for _, c := range cases[r.Alert] {
			data := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(c.series, "\n", "\n  "))
			got := evaluate(t, r, data, start, start.Add(time.Hour))
			switch {
			case c.by == never:
				if quiet = true; len(got) > 0 {
					t.Errorf("%s: %s: fired after %v", r.Alert, c.what, got[0].at.Sub(start))
				}
			case len(got) != 1:
				t.Errorf("%s: %s: fired %d times", r.Alert, c.what, len(got))
			default:
				if fires = true; got[0].at.Sub(start) > c.by || got[0].summary != c.summary {
					t.Errorf("%s: %s: fired after %v, want within %v: %s", r.Alert, c.what, got[0].at.Sub(start), c.by, got[0].summary)
				}
			}
		}
		if !fires || !quiet {
			t.Errorf("%s needs series that make it fire, and series that do not", r.Alert)
		}
	}
	if len(cases) != len(all) {
		t.Errorf("%d alerts, and series for %d", len(all), len(cases))
	}
}
