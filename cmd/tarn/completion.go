package main

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
)

// completionTime is how long somebody who pressed the tabulator waits for a cluster.
const completionTime = 2 * time.Second

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes tarn's commands in a shell",
		Long: `Print a script that completes tarn's commands, flags, resources, namespaces and contexts.
Resources and namespaces are those of the cluster, if it answers within two seconds.
The shells are bash, zsh, fish and powershell.`,
		Example: `  source <(tarn completion bash)
  tarn completion zsh > "${fpath[1]}/_tarn"
  tarn completion fish > ~/.config/fish/completions/tarn.fish
  tarn completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("say which shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(e.out, true)
			case "zsh":
				return root.GenZshCompletion(e.out)
			case "fish":
				return root.GenFishCompletion(e.out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(e.out)
			}
		},
	}
}

// complete sets what completes a flag's value. The flag must exist.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// fixed completes with a few words.
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

// completeNamespaces asks the cluster, and offers nothing if it does not answer.
func (e *env) completeNamespaces(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(background(cmd), completionTime)
	defer cancel()
	client, _, err := e.client(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _, err := wire.For(client, wire.Metadata(wire.MustOf[*corev1.Namespace]().Resource)).List(ctx, object.ListOptions{Version: "0"})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, len(all))
	for i, ns := range all {
		names[i] = ns.Name
	}
	return matching(prefix, names), cobra.ShellCompDirectiveNoFileComp
}

// completeResources asks the cluster for what can be watched; without one it offers the
// names that every cluster has. What stands before the last comma is kept.
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

// matching returns the words with a prefix: not all shells choose by themselves.
func matching(prefix string, words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) })
}

// watchable returns the plurals of what can be watched. One that several groups have is
// given with its group, except in the first.
func (e *env) watchable(cmd *cobra.Command) []string {
	ctx, cancel := context.WithTimeout(background(cmd), completionTime)
	defer cancel()
	client, _, err := e.client(ctx)
	if err != nil {
		return slices.Clone(everywhere)
	}
	all, _ := wire.NewDiscovery(client, wire.DiscoveryOptions{}).All(ctx)
	if len(all) == 0 {
		return slices.Clone(everywhere)
	}
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

// everywhere are resources that every cluster has.
var everywhere = []string{
	"configmaps", "cronjobs", "daemonsets", "deployments", "events", "ingresses", "jobs",
	"namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
	"replicasets", "secrets", "serviceaccounts", "services", "statefulsets",
}

// background returns the command's context; a completion has none in some shells.
func background(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
