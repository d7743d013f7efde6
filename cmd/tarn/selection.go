package main

import (
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
)

// selectionFlags selects objects with kubectl's flag names.
type selectionFlags struct {
	namespace string
	all       bool
	labels    string
	fields    string
}

// add adds the flags and their completion to a command.
func (f *selectionFlags) add(cmd *cobra.Command, e *env) {
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the namespace (default from the context); ignored with -A")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&f.labels, "selector", "l", "", "a label `selector`, such as app=web,tier!=db")
	flags.StringVar(&f.fields, "field-selector", "", "a field `selector`, such as status.phase=Running")
	complete(cmd, "namespace", e.completeNamespaces)
}

// check validates the flags without contacting the server.
func (f *selectionFlags) check() error {
	if f.namespace != "" {
		if wrong := validation.ValidateNamespaceName(f.namespace, false); len(wrong) > 0 {
			return usagef("invalid namespace %q: must be up to 63 lower-case letters, digits or hyphens, and must not start or end with a hyphen", f.namespace)
		}
	}
	if _, err := labels.Parse(f.labels); err != nil {
		return usagef("invalid label selector %q: %s", f.labels, strings.TrimPrefix(oneLine(err.Error()), "unable to parse requirement: "))
	}
	if _, err := fields.ParseSelector(f.fields); err != nil {
		return usagef("invalid field selector %q: must be field=value or field!=value, separated by commas", f.fields)
	}
	return nil
}

// of returns the selection for a resource. preferred is the context's namespace.
func (f *selectionFlags) of(res object.Resource, preferred string) object.Selection {
	sel := object.Selection{Labels: f.labels, Fields: f.fields}
	switch {
	case f.all || !res.Namespaced:
	case f.namespace != "":
		sel.Namespace = f.namespace
	default:
		sel.Namespace = preferred
	}
	return sel
}
