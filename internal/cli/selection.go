package cli

import (
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
)

// selectionFlags selects objects with kubectl's flags.
type selectionFlags struct {
	labels, fields string
	allNamespaces  bool
}

// add adds the flags to a command.
func (f *selectionFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.labels, "selector", "l", "", "a label `selector`, such as app=web,tier!=cache or 'env in (dev, test)'")
	flags.StringVar(&f.fields, "field-selector", "", "a field `selector`, such as spec.nodeName=node-7; the server supports few fields of each type")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "select the objects of all namespaces; --namespace is ignored")
}

// check validates the flags, and that of the namespace, without contacting the server.
func (f *selectionFlags) check(e *env) error {
	if name := e.cluster.overrides.Context.Namespace; name != "" {
		if wrong := validation.ValidateNamespaceName(name, false); len(wrong) > 0 {
			return usagef("invalid namespace %q: must be up to 63 lower-case letters, digits or hyphens, and must not start or end with a hyphen", name)
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

// of returns the selection for a resource in the given namespace.
func (f *selectionFlags) of(res object.Resource, namespace string) object.Selection {
	sel := object.Selection{Labels: f.labels, Fields: f.fields}
	if res.Namespaced && !f.allNamespaces {
		sel.Namespace = namespace
	}
	return sel
}
