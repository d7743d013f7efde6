package cli

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

// renderer formats changes. It is used by one goroutine at a time. Its error names the
// objects that could not be rendered; all others are.
type renderer interface {
	render(into *page, all []objectChange) error
}

// outputs lists the values of --output.
var outputs = []string{"table", "wide", "jsonl", "yaml", "diff"}

// rendering holds the output options.
type rendering struct {
	output      string
	showSecrets bool

	// For tables.
	once, namespaces bool
	several          bool // resources, to be distinguished
	// For diffs.
	noise bool
}

// tabular reports whether the output shows the server's tables.
func (r rendering) tabular() bool { return r.output == "table" || r.output == "wide" }

// renderer returns the renderer for the output format.
func (r rendering) renderer() (renderer, error) {
	switch r.output {
	case "table", "wide":
		return &table{rendering: r, sheets: map[object.Resource]*sheet{}}, nil
	case "jsonl":
		return jsonLines{r}, nil
	case "yaml":
		return yamlDocuments{r}, nil
	case "diff":
		return fieldEdits{r}, nil
	}
	return nil, usagef("unknown output %q: must be one of %s", r.output, strings.Join(outputs, ", "))
}

// visible returns the object without hidden fields and with its kind, which the items of a list
// need not have.
func (r rendering) visible(h objectChange) *unstructured.Unstructured {
	obj := h.obj
	if !r.showSecrets {
		obj = mask(h.res, obj)
	}
	if obj.GetKind() == "" {
		obj = &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
		obj.SetGroupVersionKind(h.res.GVK())
	}
	return obj
}

// jsonLines renders one JSON object per line.
type jsonLines struct{ rendering }

// jsonLine starts with the fields of an API watch event.
type jsonLine struct {
	Type    string         `json:"type"`
	Object  map[string]any `json:"object"`
	Initial bool           `json:"initial,omitempty"`
	Unseen  bool           `json:"finalStateUnknown,omitempty"`
}

func (j jsonLines) render(into *page, all []objectChange) (failed error) {
	for _, h := range all {
		line, err := jsonText(jsonLine{Type: h.eventType(), Object: j.visible(h).Object, Initial: h.initial, Unseen: h.unseen})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s cannot be shown as JSON: %w", h.name(), err))
			continue
		}
		into.put(line + "\n")
	}
	return failed
}

// yamlDocuments renders one YAML document per change, with the change in a comment.
type yamlDocuments struct{ rendering }

func (y yamlDocuments) render(into *page, all []objectChange) (failed error) {
	for _, h := range all {
		text, err := yamlText(y.visible(h).Object)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s cannot be shown as YAML: %w", h.name(), err))
			continue
		}
		into.put("---\n")
		if !y.once {
			note := "# " + h.eventType() + " " + plain(h.name())
			if h.initial {
				note = "# " + plain(h.name())
			}
			into.in(h.style(), note)
			into.put("\n")
		}
		into.put(text)
	}
	return failed
}
