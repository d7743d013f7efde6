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

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletionCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell completion script",
		Long: `Print a shell script that completes commands, flags, resources, objects, namespaces and
contexts. Resources, objects and namespaces come from the cluster if it responds within two seconds.
Supported shells are bash, zsh, fish and powershell.`,
		Example: `  source <(tarn completion bash)
  tarn completion zsh > "${fpath[1]}/_tarn"
  tarn completion fish > ~/.config/fish/completions/tarn.fish
  tarn completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("specify a shell: %s", strings.Join(shells, ", "))
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
	names := namesOf(ctx, client, wire.MustOf[*corev1.Namespace]().Resource, "")
	return matching(prefix, names), cobra.ShellCompDirectiveNoFileComp
}

// namesOf returns the names of a resource's objects, or none if the server does not respond.
func namesOf(ctx context.Context, client *wire.Client, res object.Resource, namespace string) (names []string) {
	opts := object.ListOptions{Version: "0"}
	if res.Namespaced {
		opts.Namespace = namespace
	}
	all, _, _ := stream.List(ctx, wire.For(client, wire.Metadata(res)), opts)
	for _, obj := range all {
		names = append(names, obj.Name)
	}
	return names
}

// completeTargets is completeResources that completes the NAME of TYPE/NAME as well.
func (e *env) completeTargets(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	before := prefix[:strings.LastIndexByte(prefix, ',')+1]
	resource, _, named := strings.Cut(prefix[len(before):], "/")
	if !named {
		return e.completeResources(cmd, args, prefix)
	}
	ctx, cancel := context.WithTimeout(background(cmd), completionTime)
	defer cancel()
	client, namespace, err := e.client(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	d, err := wire.NewDiscovery(client).Find(ctx, resource)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := namesOf(ctx, client, d.Resource, namespace)
	for i := range names {
		names[i] = before + resource + "/" + names[i]
	}
	return matching(prefix, names), cobra.ShellCompDirectiveNoFileComp
}

// completeOutputs completes the formats of tarn watch. Those with an argument get no space.
func completeOutputs(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	found := matching(prefix, slices.Clone(outputs))
	if len(found) == 1 && strings.HasSuffix(found[0], "=") {
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeResources completes from the cluster's watchable resources, or from common ones
// if it does not respond. It keeps everything before the last comma.
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
		return slices.Clone(commonResources)
	}
	all, _ := wire.NewDiscovery(client).All(ctx)
	if len(all) == 0 {
		return slices.Clone(commonResources)
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

// commonResources exist in every cluster.
var commonResources = []string{
	"configmaps", "cronjobs", "daemonsets", "deployments", "events", "ingresses", "jobs",
	"namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
	"replicasets", "secrets", "serviceaccounts", "services", "statefulsets",
}

// background returns the command's context, which is nil during completion in some shells.
func background(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
