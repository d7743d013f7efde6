package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// renderer turns what happened into text. It is used by one goroutine at a time.
type renderer interface {
	render(into *bytes.Buffer, all []happening) error
}

// outputs are the names of the forms.
var outputs = []string{"table", "jsonl", "yaml", "diff"}

// rendering says how objects are shown.
type rendering struct {
	output      string
	showSecrets bool
	paint       paint

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

func (j jsonLines) render(into *bytes.Buffer, all []happening) error {
	enc := json.NewEncoder(into)
	enc.SetEscapeHTML(false)
	for _, h := range all {
		line := jsonLine{Type: h.word(), Object: j.visible(h).Object, Initial: h.initial, Unseen: h.unseen}
		if err := enc.Encode(line); err != nil {
			return fmt.Errorf("%s cannot be shown as JSON: %w", h.name(), err)
		}
	}
	return nil
}

// yamlDocuments is one YAML document an object, with a comment that tells what happened.
type yamlDocuments struct{ rendering }

func (y yamlDocuments) render(into *bytes.Buffer, all []happening) error {
	for _, h := range all {
		text, err := yaml.Marshal(y.visible(h).Object)
		if err != nil {
			return fmt.Errorf("%s cannot be shown as YAML: %w", h.name(), err)
		}
		into.WriteString("---\n")
		if !y.once {
			note := "# " + h.word() + " " + plain(h.name())
			if h.initial {
				note = "# " + plain(h.name())
			}
			into.WriteString(y.paint.in(h.style(), note) + "\n")
		}
		into.Write(text)
	}
	return nil
}
