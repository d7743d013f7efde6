package console

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tarnproject/tarn/apiserver"
)

// axe is axe-core 4.14.0 as published on npm, under the MPL 2.0. Its licences are beside it.
//
//go:embed testdata/axe-core/axe.min.js
var axe string

const axeSum = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"

func TestAxeIsTheReleasedFile(t *testing.T) {
	if sum := sha256.Sum256([]byte(axe)); hex.EncodeToString(sum[:]) != axeSum {
		t.Errorf("axe.min.js has the checksum %x, want %s", sum, axeSum)
	}
}

// violation is what axe reports about one rule.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

func TestAxeFindsNothingSerious(t *testing.T) {
	l := newLab(t, apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"})
	p := open(t, l.url, desktop)
	eval[chromedp.Void](p, axe+";0")
	views := []struct{ hash, selector, text string }{
		{"#/", ".problem h2", "secrets"},
		{"#/objects?mirror=pods", ".count", "48 objects"},
		{"#/object?mirror=pods&key=shop/" + l.watched[0].Name, "pre", "registry.example.com"},
		{"#/explain?key=" + stuck, ".why", "backing off"},
	}
	for _, v := range views {
		p.goTo(v.hash)
		p.waitText(v.selector, v.text)
		eval[bool](p, `document.querySelectorAll("details").forEach((d) => (d.open = true)), true`)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			for _, found := range eval[[]violation](p, `axe.run().then((r) => r.violations)`) {
				for _, n := range found.Nodes {
					t.Logf("%s, %s: %s (%s): %s\n%s\n%s", v.hash, scheme, found.ID, found.Impact, found.Help, n.HTML, n.FailureSummary)
				}
				if found.Impact == "serious" || found.Impact == "critical" {
					t.Errorf("%s, %s: %s: %s", v.hash, scheme, found.ID, found.Help)
				}
			}
		}
	}
}
