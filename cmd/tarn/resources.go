package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// resourceArgs are the arguments of a command that takes resources: at least one, each
// of which may be several with commas between them.
func resourceArgs(cmd *cobra.Command, args []string) error {
	if len(split(args)) == 0 {
		return usagef("say which resources, such as %s pods; see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// split takes arguments apart at their commas.
func split(args []string) (names []string) {
	for _, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// resolve asks the server what the named resources are, each once, in the order of the
// names. A name is the plural, the singular, a short name or the kind, alone or with the
// group or with version and group behind it. wire.Unstructured makes a typed resource of
// what it returns.
func (e *env) resolve(ctx context.Context, client *wire.Client, args []string) ([]wire.Discovered, error) {
	defer e.busy("waiting for the server %s to list its resources", client.Host())()
	discovery := wire.NewDiscovery(client, wire.DiscoveryOptions{})
	var found []wire.Discovered
	for _, name := range split(args) {
		if resource, object, ok := strings.Cut(name, "/"); ok {
			return nil, usagef("%q names an object: say %s --field-selector metadata.name=%s", name, resource, object)
		}
		d, err := discovery.Find(ctx, name)
		var unknown *wire.UnknownResourceError
		switch {
		case errors.As(err, &unknown):
			return nil, usagef("%s", oneLine(unknown.Error()))
		case err != nil:
			return nil, err
		}
		if !slices.ContainsFunc(found, func(have wire.Discovered) bool { return have.Resource == d.Resource }) {
			found = append(found, d)
		}
	}
	return found, nil
}

// objectMirror is a mirror of objects of any kind.
type objectMirror = informer.Informer[*unstructured.Unstructured]

// newMirror returns a mirror of a resource, named as people name the resource. Fields
// that are to be dropped never become part of an object.
func newMirror(client *wire.Client, res object.Resource, sel object.Selection, drop []object.FieldPath, opts informer.Options[*unstructured.Unstructured]) (*objectMirror, error) {
	source, err := wire.For(client, wire.Unstructured(res)).Source(sel, wire.SourceOptions{Drop: drop})
	if err != nil {
		return nil, err
	}
	opts.Name = res.String()
	opts.Selection = sel
	return informer.New(source, object.Meta[*unstructured.Unstructured](), opts)
}

// watchableOnly refuses resources that the server does not let anybody list and watch.
func watchableOnly(found []wire.Discovered) error {
	for _, d := range found {
		for _, verb := range []string{"list", "watch"} {
			if !slices.Contains(d.Verbs, verb) {
				return usagef("%s cannot be watched: the server offers only %s", d, strings.Join(d.Verbs, ", "))
			}
		}
	}
	return nil
}
