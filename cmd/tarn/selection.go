package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/tarnproject/tarn/object"
)

// selectionFlags selects objects with kubectl's flags.
type selectionFlags struct {
	*genericclioptions.ResourceBuilderFlags
}

// newSelectionFlags returns the flags without those for files.
func newSelectionFlags() selectionFlags {
	flags := genericclioptions.NewResourceBuilderFlags().WithLabelSelector("").WithFieldSelector("").WithAllNamespaces(false)
	flags.FileNameFlags = nil
	return selectionFlags{flags}
}

// check validates the flags, and that of the namespace, without contacting the server.
func (f selectionFlags) check(e *env) error {
	if name := *e.cluster.Namespace; name != "" {
		if wrong := validation.ValidateNamespaceName(name, false); len(wrong) > 0 {
			return usagef("invalid namespace %q: must be up to 63 lower-case letters, digits or hyphens, and must not start or end with a hyphen", name)
		}
	}
	if _, err := labels.Parse(*f.LabelSelector); err != nil {
		return usagef("invalid label selector %q: %s", *f.LabelSelector, strings.TrimPrefix(oneLine(err.Error()), "unable to parse requirement: "))
	}
	if _, err := fields.ParseSelector(*f.FieldSelector); err != nil {
		return usagef("invalid field selector %q: must be field=value or field!=value, separated by commas", *f.FieldSelector)
	}
	return nil
}

// of returns the selection for a resource in the given namespace.
func (f selectionFlags) of(res object.Resource, namespace string) object.Selection {
	sel := object.Selection{Labels: *f.LabelSelector, Fields: *f.FieldSelector}
	if res.Namespaced && !*f.AllNamespaces {
		sel.Namespace = namespace
	}
	return sel
}
