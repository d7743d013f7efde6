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
	"github.com/tarnproject/tarn/wire/stream"
)

// resourceArgs requires at least one resource argument. An argument may list several,
// separated by commas.
func resourceArgs(cmd *cobra.Command, args []string) error {
	if len(split(args)) == 0 {
		return usagef("specify at least one resource, such as %s pods; see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// split splits arguments at commas.
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

// resolve looks up resources by name through discovery, without duplicates and in the given
// order. A name is a plural, singular, short name or kind, optionally followed by the group
// or by version and group.
func (e *env) resolve(ctx context.Context, client *wire.Client, args []string) ([]wire.Discovered, error) {
	defer e.busy("waiting for discovery on %s", client.Host())()
	discovery := wire.NewDiscovery(client)
	var found []wire.Discovered
	for _, name := range split(args) {
		if resource, object, ok := strings.Cut(name, "/"); ok {
			return nil, usagef("%q names an object; use %s --field-selector metadata.name=%s", name, resource, object)
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

// objectMirror is a mirror of any kind.
type objectMirror = informer.Informer[*unstructured.Unstructured]

// newMirror returns a mirror of a resource. Dropped fields are never decoded.
func newMirror(client *wire.Client, res object.Resource, sel object.Selection, drop []object.FieldPath, opts informer.Options[*unstructured.Unstructured]) (*objectMirror, error) {
	source, err := stream.NewSource(wire.For(client, wire.Unstructured(res)), sel, stream.Options{Drop: drop})
	if err != nil {
		return nil, err
	}
	opts.Name = res.String()
	opts.Selection = sel
	return informer.New(source, object.Meta[*unstructured.Unstructured](), opts)
}

// watchableOnly rejects resources that do not support list and watch.
func watchableOnly(found []wire.Discovered) error {
	for _, d := range found {
		for _, verb := range []string{"list", "watch"} {
			if !slices.Contains(d.Verbs, verb) {
				return usagef("%s cannot be watched: the server supports only %s", d, strings.Join(d.Verbs, ", "))
			}
		}
	}
	return nil
}
