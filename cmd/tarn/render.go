package main

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// renderer turns what happened into text. It is used by one goroutine at a time. Its error
// names the objects that could not be rendered; all others are.
type renderer interface {
	render(into *page, all []happening) error
}

// outputs are the names of the forms.
var outputs = []string{"table", "jsonl", "yaml", "diff"}

// rendering says how objects are shown.
type rendering struct {
	output      string
	showSecrets bool

	// For tables.
	once, namespaces bool
	resources        []string // the names to tell apart; none if there is one alone
	// For differences.
	noise bool
}

// renderer returns what makes that form.
func (r rendering) renderer() (renderer, error) {
	switch r.output {
	case "table":
		return newTable(r), nil
	case "jsonl":
		return jsonLines{r}, nil
	case "yaml":
		return yamlDocuments{r}, nil
	case "diff":
		return fieldEdits{r}, nil
	}
	return nil, usagef("there is no output %q; it is %s", r.output, strings.Join(outputs, ", "))
}

// visible returns the object as it may be shown.
func (r rendering) visible(h happening) *unstructured.Unstructured {
	if r.showSecrets {
		return h.obj
	}
	return mask(h.res, h.obj)
}

// jsonLines is one JSON object a line.
type jsonLines struct{ rendering }

// jsonLine has the fields of a watch event of the API first.
type jsonLine struct {
	Type    string         `json:"type"`
	Object  map[string]any `json:"object"`
	Initial bool           `json:"initial,omitempty"`
	Unseen  bool           `json:"finalStateUnknown,omitempty"`
}

func (j jsonLines) render(into *page, all []happening) (failed error) {
	for _, h := range all {
		line, err := jsonText(jsonLine{Type: h.word(), Object: j.visible(h).Object, Initial: h.initial, Unseen: h.unseen})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s cannot be shown as JSON: %w", h.name(), err))
			continue
		}
		into.put(line + "\n")
	}
	return failed
}

// yamlDocuments is one YAML document an object, with a comment that tells what happened.
type yamlDocuments struct{ rendering }

func (y yamlDocuments) render(into *page, all []happening) (failed error) {
	for _, h := range all {
		text, err := yamlText(y.visible(h).Object)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s cannot be shown as YAML: %w", h.name(), err))
			continue
		}
		into.put("---\n")
		if !y.once {
			note := "# " + h.word() + " " + plain(h.name())
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
