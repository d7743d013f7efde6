package main

import (
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
)

// selectionFlags say which objects, with the names that kubectl's users know.
type selectionFlags struct {
	namespace string
	all       bool
	labels    string
	fields    string
}

// add gives a command the flags that select objects, with their completion.
func (f *selectionFlags) add(cmd *cobra.Command, e *env) {
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the namespace (default that of the context); not used with -A")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces, whatever -n says")
	flags.StringVarP(&f.labels, "selector", "l", "", "a label `selector`, such as app=web,tier!=db")
	flags.StringVar(&f.fields, "field-selector", "", "a field `selector`, such as status.phase=Running")
	complete(cmd, "namespace", e.completeNamespaces)
}

// check tells what is wrong with the flags, before anybody is asked.
func (f *selectionFlags) check() error {
	if f.namespace != "" {
		if wrong := validation.ValidateNamespaceName(f.namespace, false); len(wrong) > 0 {
			return usagef("%q is not a name that a namespace can have: up to 63 small letters, digits and hyphens, with no hyphen at either end", f.namespace)
		}
	}
	if _, err := labels.Parse(f.labels); err != nil {
		return usagef("the label selector %q is wrong: %s", f.labels, strings.TrimPrefix(oneLine(err.Error()), "unable to parse requirement: "))
	}
	if _, err := fields.ParseSelector(f.fields); err != nil {
		return usagef("the field selector %q is wrong: it is written field=value or field!=value, with commas between several", f.fields)
	}
	return nil
}

// of returns what the flags select of a resource, where the context prefers a namespace.
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
