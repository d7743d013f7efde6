package conformance

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAnswers sends the same requests to both servers and compares the answers.
func TestAnswers(t *testing.T) {
	startHooks(t)
	var found []difference
	sent, partly := 0, false
	for _, topic := range []struct {
		name      string
		exchanges []exchange
	}{
		{"lists", lists}, {"watches", watches}, {"creates", creates}, {"updates", updates}, {"namespaced", namespaced}, {"immutable", immutable}, {"autoscalers", autoscalers}, {"deletes", deletes},
		{"patches", patches}, {"forms", forms}, {"discovery", discovery}, {"custom", custom}, {"schemas", schemas}, {"workloads", workloads},
		{"shards", shards}, {"permissions", permissions}, {"reviews", reviews}, {"tokens", tokens}, {"webhooks", webhooks}, {"expired", expired}, {"scales", scales},
		{"statuses", statuses}, {"workloads", podSubresources}, {"dry runs", dryRuns},
		{"warnings", warnings}, {"events", bothEvents}, {"signing", signing},
		{"kinds", slices.Concat(services, podKinds, appKinds, jobKinds, configKinds, ruleKinds, kindStatuses, podChanges)},
		{"namespaces", terminations}, {"creating updates", createdByUpdates}, {"tables", tables}, {"gone versions", goneVersions},
	} {
		var here, there []map[string]any
		t.Run(topic.name, func(t *testing.T) { // returns when both have answered
			t.Run("embedded", func(t *testing.T) {
				t.Parallel()
				here = newSide(t, embedded(t)).sendAll(t, topic.exchanges)
			})
			t.Run("real", func(t *testing.T) {
				t.Parallel()
				there = newSide(t, genuine(t)).sendAll(t, topic.exchanges)
			})
		})
		if t.Failed() {
			return
		}
		if len(here) != len(topic.exchanges) { // not selected by -run
			partly = true
			continue
		}
		sent += len(topic.exchanges)
		for i, x := range topic.exchanges {
			found = append(found, compare(topic.name+": "+x.name, "", here[i], there[i])...)
		}
	}
	t.Logf("%d exchanges", sent)
	hits := make([]int, len(documented))
	var missing []string
	for _, d := range found {
		i := slices.IndexFunc(documented, func(l line) bool { return l.covers(d) })
		if i < 0 {
			missing = append(missing, d.String())
			continue
		}
		hits[i]++
	}
	if len(missing) > 0 {
		t.Errorf("%d differences that docs/embedded-differences.md does not have:\n%s", len(missing), strings.Join(missing, "\n"))
	}
	for i, l := range documented {
		if hits[i] == 0 && !partly {
			t.Errorf("%s (%s, %s) no longer differs: take the line out", l.id, l.exchange, l.path)
		}
	}
}

// line is a documented difference: the answers to some exchanges differ in some fields. The
// exchange is a pattern as path.Match has it. So is each step of the path, where "**" is
// any number of steps.
type line struct{ id, exchange, path string }

func (l line) covers(d difference) bool {
	// A star is to match a slash as well.
	ok, _ := path.Match(l.exchange, strings.ReplaceAll(d.exchange, "/", "|"))
	return ok && leads(strings.Split(l.path, "."), strings.Split(d.path, "."))
}

// leads reports whether a pattern matches a path.
func leads(pattern, steps []string) bool {
	switch {
	case len(pattern) == 0:
		return len(steps) == 0
	case pattern[0] == "**":
		return leads(pattern[1:], steps) || len(steps) > 0 && leads(pattern, steps[1:])
	case len(steps) == 0:
		return false
	}
	ok, _ := path.Match(pattern[0], steps[0])
	return ok && leads(pattern[1:], steps[1:])
}

// The document and the list here have the same lines.
func TestEveryDocumentedDifferenceIsChecked(t *testing.T) {
	text, err := os.ReadFile("../../docs/embedded-differences.md")
	if err != nil {
		t.Fatal(err)
	}
	inText := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (D\d\d) \|`).FindAllStringSubmatch(string(text), -1) {
		if inText[m[1]] {
			t.Errorf("%s is there twice", m[1])
		}
		inText[m[1]] = true
	}
	checked := map[string]bool{}
	for _, l := range documented {
		checked[l.id] = true
		if !inText[l.id] {
			t.Errorf("%s is not in the document", l.id)
		}
		for _, pattern := range []string{l.exchange, l.path} {
			if _, err := path.Match(pattern, ""); err != nil {
				t.Error(fmt.Errorf("%s: %w", l.id, err))
			}
		}
	}
	for id := range inText {
		if !checked[id] {
			t.Errorf("%s of the document is not checked here", id)
		}
	}
}
