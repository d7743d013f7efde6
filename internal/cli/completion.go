package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// completionTime limits how long a completion waits for the cluster.
const completionTime = 2 * time.Second

// complete sets the completion function of an existing flag.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// fixed completes from a fixed list.
func fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func (e *env) completeContexts(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(background(cmd), completionTime)
	defer cancel()
	raw, err := interruptible(ctx, e.cluster.loader().RawConfig)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return matching(prefix, slices.Sorted(maps.Keys(raw.Contexts))), cobra.ShellCompDirectiveNoFileComp
}

// completeNamespaces completes from the cluster's namespaces, if it responds.
func (e *env) completeNamespaces(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(background(cmd), completionTime)
	defer cancel()
	client, _, err := e.client(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _, _ := stream.List(ctx, wire.For(client, wire.Metadata(wire.MustOf[*corev1.Namespace]().Resource)), object.ListOptions{Version: "0"})
	var names []string
	for _, namespace := range all {
		names = append(names, namespace.Name)
	}
	return matching(prefix, names), cobra.ShellCompDirectiveNoFileComp
}

// completeResources completes from the cluster's watchable resources, if it responds. It
// keeps everything before the last comma.
func (e *env) completeResources(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	before := prefix[:strings.LastIndexByte(prefix, ',')+1]
	taken := split(append(args, before))
	var names []string
	for _, name := range e.watchable(cmd) {
		if !slices.Contains(taken, name) {
			names = append(names, before+name)
		}
	}
	return matching(prefix, names), cobra.ShellCompDirectiveNoFileComp
}

// matching filters by prefix, since not all shells do.
func matching(prefix string, words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) })
}

// watchable returns the plural names of watchable resources. A name that several groups
// have is qualified with the group, except in the first.
func (e *env) watchable(cmd *cobra.Command) []string {
	ctx, cancel := context.WithTimeout(background(cmd), completionTime)
	defer cancel()
	client, _, err := e.client(ctx)
	if err != nil {
		return nil
	}
	all, _ := wire.NewDiscovery(client).All(ctx)
	seen := map[string]bool{}
	var names []string
	for _, d := range all {
		if !d.Preferred || !slices.Contains(d.Verbs, "watch") {
			continue
		}
		name := d.Resource.Resource
		if seen[name] {
			name = d.String()
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// background returns the command's context, which is nil during completion in some shells.
func background(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
