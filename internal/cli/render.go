package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
)

// renderer formats changes. It is used by one goroutine at a time. Its error names the
// objects that could not be rendered; all others are.
type renderer interface {
	render(into *page, all []objectChange) error
}

// outputs lists the values of --output. Those that end with an equals sign take an argument.
var outputs = []string{"table", "wide", "name", "json", "jsonl", "yaml", "diff", "jsonpath=", "jsonpath-as-json=", "go-template=", "custom-columns="}

// rendering holds the output options.
type rendering struct {
	output      string
	showSecrets bool

	// For tables.
	once, namespaces bool
	several          bool // resources, to be distinguished
	wide             bool
	// For diffs.
	noise bool
}

// tabular reports whether the output shows the server's tables.
func (r rendering) tabular() bool { return r.output == "table" || r.output == "wide" }

// renderer returns the renderer for the output format.
func (r rendering) renderer() (renderer, error) {
	format, argument, hasArgument := strings.Cut(r.output, "=")
	known := format
	if hasArgument {
		known += "="
	}
	if !slices.Contains(outputs, known) || hasArgument && argument == "" {
		return nil, usagef("unknown output %q: must be one of %s", r.output, strings.Join(outputs, ", "))
	}
	switch format {
	case "table", "wide":
		r.wide = format == "wide"
		return newTable(r), nil
	case "jsonl":
		return jsonLines{r}, nil
	case "yaml":
		return yamlDocuments{r}, nil
	case "diff":
		return fieldEdits{r}, nil
	case "custom-columns":
		columns, err := parseColumns(argument)
		if err != nil {
			return nil, err
		}
		t := newTable(r)
		t.bare, t.rowOf = true, func(h objectChange) *tableRow { return columns.row(r.visible(h).Object) }
		return t, nil
	}
	printer, err := printerOf(format, argument)
	if err != nil {
		return nil, usagef("invalid output %q: %s", r.output, oneLine(err.Error()))
	}
	return printed{r, printer, format == "json" || format == "jsonpath-as-json"}, nil
}

// printerOf returns kubectl's printer of a format. Missing keys of a template print nothing.
func printerOf(format, argument string) (printers.ResourcePrinter, error) {
	switch format {
	case "json":
		return &printers.JSONPrinter{}, nil
	case "name":
		return &printers.NamePrinter{ShortOutput: true}, nil
	case "go-template":
		p, err := printers.NewGoTemplatePrinter([]byte(argument))
		if err != nil {
			return nil, fmt.Errorf("error parsing template %s, %w", argument, err)
		}
		p.AllowMissingKeys(true)
		return p, nil
	}
	p, err := printers.NewJSONPathPrinter(argument)
	if err != nil {
		return nil, fmt.Errorf("error parsing jsonpath %s, %w", argument, err)
	}
	p.AllowMissingKeys(true)
	p.EnableJSONOutput(format == "jsonpath-as-json")
	return p, nil
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

// printed renders each object with a printer of kubectl.
type printed struct {
	rendering
	printer printers.ResourcePrinter
	isJSON  bool
}

func (p printed) render(into *page, all []objectChange) (failed error) {
	for _, h := range all {
		var text bytes.Buffer
		if err := p.printer.PrintObj(p.visible(h), &text); err != nil {
			// The printer's error has the whole object in it.
			failed = errors.Join(failed, fmt.Errorf("%s cannot be shown as %s", h.name(), p.output))
			continue
		}
		line := strings.TrimSuffix(text.String(), "\n") + "\n" // a template has no line end
		if p.isJSON {
			line = escapeJSON(line)
		}
		into.put(line)
	}
	return failed
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

// yamlDocuments renders one YAML document per change, with the change in a comment. The printer
// of kubectl fails for characters that [yamlText] escapes.
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
