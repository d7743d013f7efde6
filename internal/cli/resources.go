package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/tarnproject/tarn/wire"
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

// target is a resource, or one object of it, that the user named.
type target struct {
	wire.Discovered
	name string // of the object; empty for all
}

// resolve looks up resources by name through discovery, without duplicates and in the given
// order. A name is a plural, singular, short name or kind, optionally followed by the group
// or by version and group.
func (e *env) resolve(ctx context.Context, client *wire.Client, args []string) (found []wire.Discovered, err error) {
	targets, err := e.resolveTargets(ctx, client, args)
	for _, t := range targets {
		if t.name != "" {
			return nil, usagef("%s/%s names an object; use %[1]s --field-selector metadata.name=%[2]s", t.Discovered, t.name)
		}
		found = append(found, t.Discovered)
	}
	return found, err
}

// resolveTargets is resolve that also accepts TYPE/NAME.
func (e *env) resolveTargets(ctx context.Context, client *wire.Client, args []string) ([]target, error) {
	defer e.busy("waiting for discovery on %s", client.Host())()
	discovery := wire.NewDiscovery(client)
	var found []target
	for _, arg := range split(args) {
		resource, name, named := strings.Cut(arg, "/")
		if wrong := content.IsPathSegmentName(name); named && (name == "" || len(wrong) > 0 || plain(name) != name) {
			return nil, usagef("invalid name in %q: must be TYPE/NAME, such as pods/web", arg)
		}
		d, err := discovery.Find(ctx, resource)
		var unknown *wire.UnknownResourceError
		switch {
		case errors.As(err, &unknown):
			return nil, usagef("%s", oneLine(unknown.Error()))
		case err != nil:
			return nil, err
		}
		if !slices.ContainsFunc(found, func(have target) bool { return have.Resource == d.Resource && have.name == name }) {
			found = append(found, target{d, name})
		}
	}
	return found, nil
}

// watchableOnly rejects resources that do not support list and watch.
func watchableOnly(found ...wire.Discovered) error {
	for _, d := range found {
		for _, verb := range []string{"list", "watch"} {
			if !slices.Contains(d.Verbs, verb) {
				return usagef("%s cannot be watched: the server supports only %s", d, strings.Join(d.Verbs, ", "))
			}
		}
	}
	return nil
}
