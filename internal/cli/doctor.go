package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

type doctorFlags struct {
	selectionFlags
	output  string
	wait    time.Duration
	timeout time.Duration
	audit   bool
}

func newDoctorCommand(e *env) *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor RESOURCE...",
		Short: "Check whether resources can be mirrored",
		Long: `Check for each resource whether it can be listed and watched, and whether the server supports
streaming lists, bookmarks and shards. Report round-trip time, the number and size of objects, the
RBAC rules that a mirror needs, and how to fix problems.

--audit also mirrors the metadata of the objects and compares the mirror with the server at one exact
version. Programs can do that with their own mirrors; see tarn.WithAudit.

tarn doctor only reads. The exit status is 1 if a check fails.`,
		Example: `  tarn doctor pods                       # in the namespace of the context
  tarn doctor pods,secrets,nodes -A      # in all namespaces
  tarn doctor widgets.example.com -o json
  tarn doctor pods -A --audit
  tarn doctor pods --as system:serviceaccount:shop:operator`,
		Args:              resourceArgs,
		ValidArgsFunction: e.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return doctor(cmd.Context(), e, flags, args)
		},
	}
	e.addCluster(cmd)
	flags.selectionFlags.add(cmd.Flags())
	cmd.Flags().StringVarP(&flags.output, "output", "o", "text", "text or json")
	cmd.Flags().DurationVar(&flags.wait, "wait", 5*time.Second, "how long to wait for a bookmark")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 20*time.Second, "how long to wait for any other response")
	cmd.Flags().BoolVar(&flags.audit, "audit", false, "also compare a mirror with the server, object by object")
	complete(cmd, "output", fixed("text", "json"))
	return cmd
}

// report is the JSON output of tarn doctor.
type report struct {
	Server    string            `json:"server"`
	Version   string            `json:"version,omitempty"`
	Resources []*resourceReport `json:"resources"`
	Rules     []rulesEntry      `json:"rules"`
	Broken    bool              `json:"broken"`
}

// rulesEntry holds the RBAC rules for one namespace, or for all.
type rulesEntry struct {
	Namespace string              `json:"namespace,omitempty"`
	Rules     []rbacv1.PolicyRule `json:"rules"`
}

func (f *doctorFlags) check(e *env) error {
	switch {
	case f.output != "text" && f.output != "json":
		return usagef("unknown output %q: must be text or json", f.output)
	case f.wait < time.Second:
		return usagef("--wait must be at least 1s")
	case f.timeout <= 0:
		return usagef("--timeout must be more than 0")
	}
	return f.selectionFlags.check(e)
}

func doctor(ctx context.Context, e *env, flags doctorFlags, args []string) error {
	if err := flags.check(e); err != nil {
		return err
	}
	cfg, namespace, err := e.config(ctx)
	if err != nil {
		return err
	}
	return examineAll(ctx, e, cfg, namespace, flags, args)
}

// examineAll examines the resources and prints the report.
func examineAll(ctx context.Context, e *env, cfg *rest.Config, namespace string, flags doctorFlags, args []string) error {
	client, err := newClient(cfg, e)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	found, err := e.resolve(ctx, client, args)
	if err != nil {
		return err
	}
	r := &report{Server: client.Host(), Version: serverVersion(ctx, client)}
	var working sync.WaitGroup
	running := make(chan struct{}, 8) // limits concurrency
	for _, d := range found {
		p, err := newExamination(cfg, e, d, flags, namespace)
		if err != nil {
			return err
		}
		r.Resources = append(r.Resources, &p.resourceReport)
		working.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			p.examine(ctx, d.Verbs)
			if flags.audit && !p.broken() {
				p.audit(ctx, cfg, e.log)
			}
			p.client.CloseIdleConnections()
		})
	}
	defer e.busy("examining %s", strings.Join(split(args), ", "))()
	working.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted before all checks were done")
	}
	for _, c := range r.Resources {
		r.Broken = r.Broken || c.broken()
	}
	rules := rulesFor(r.Resources)
	if flags.output == "json" {
		err = r.json(e.out, rules)
	} else {
		err = e.out.show(r.text(rules, paint(e.colour())))
	}
	if err != nil {
		return e.out.err()
	}
	if r.Broken {
		return errFound
	}
	return nil
}

func newExamination(cfg *rest.Config, e *env, d wire.Discovered, flags doctorFlags, namespace string) (*examination, error) {
	p := &examination{
		res: d.Resource, sel: flags.of(d.Resource, namespace), wait: flags.wait, limit: flags.timeout,
	}
	p.resourceReport = resourceReport{Resource: d.String(), Version: d.GVK().GroupVersion().String(), Namespace: p.sel.Namespace, need: d.Resource}
	var err error
	if p.client, err = newClient(cfg, e); err != nil {
		return nil, err
	}
	p.source, err = stream.NewSource(wire.For(p.client, wire.Unstructured(d.Resource)), p.sel, stream.Options{Lazy: true})
	return p, err
}

// serverVersion returns the server's version, or "" if it does not report one.
func serverVersion(ctx context.Context, client *wire.Client) string {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	result, err := client.Request("GET").AbsPath("/version").Do(ctx)
	if err != nil || json.Unmarshal(result.Raw(), &info) != nil {
		return ""
	}
	return info.GitVersion
}

// rulesFor returns the RBAC rules that mirrors of the resources need.
func rulesFor(resources []*resourceReport) tarn.Rules {
	rules := tarn.Rules{Name: "tarn", Namespaces: map[string][]rbacv1.PolicyRule{}}
	add := func(rules []rbacv1.PolicyRule, res object.Resource) []rbacv1.PolicyRule {
		for i := range rules {
			if rules[i].APIGroups[0] == res.Group {
				rules[i].Resources = append(rules[i].Resources, res.Resource)
				return rules
			}
		}
		return append(rules, rbacv1.PolicyRule{
			APIGroups: []string{res.Group}, Resources: []string{res.Resource}, Verbs: []string{"get", "list", "watch"},
		})
	}
	for _, c := range resources {
		if c.Namespace == "" {
			rules.Cluster = add(rules.Cluster, c.need)
		} else {
			rules.Namespaces[c.Namespace] = add(rules.Namespaces[c.Namespace], c.need)
		}
	}
	return rules
}

// entriesOf returns rules by namespace.
func entriesOf(rules tarn.Rules) (entries []rulesEntry) {
	if len(rules.Cluster) > 0 {
		entries = append(entries, rulesEntry{Rules: rules.Cluster})
	}
	for _, role := range rules.Roles() {
		entries = append(entries, rulesEntry{Namespace: role.Namespace, Rules: role.Rules})
	}
	return entries
}

func (r *report) json(w io.Writer, rules tarn.Rules) error {
	r.Rules = entriesOf(rules)
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(b.String()))
	return err
}

func (r *report) text(rules tarn.Rules, paint paint) *page {
	p := &page{paint: paint}
	p.put("server " + plain(r.Server))
	if r.Version != "" {
		p.put(", Kubernetes " + plain(r.Version))
	}
	p.put("\n")
	for _, c := range r.Resources {
		p.put("\n")
		p.in(bold, plain(c.Resource))
		p.put("  " + plain(c.about()) + "\n")
		for _, f := range c.Findings {
			p.put("  ")
			p.in(map[verdict]style{fine: green, note: yellow, broken: red}[f.Verdict], fmt.Sprintf("%-7s", f.Verdict))
			p.putf(" %-15s %s\n", f.Check, plain(f.Text))
			if f.Fix != "" {
				p.put("  ")
				p.in(faint, fmt.Sprintf("%23s %s", "→", f.Fix))
				p.put("\n")
			}
		}
	}
	p.put("\nA mirror needs these RBAC rules:\n\n")
	for line := range strings.Lines(rules.String()) {
		p.put("  " + line)
	}
	p.put("\n")
	if r.Broken {
		p.in(red, "Some checks failed; see above.")
	} else {
		p.in(green, "All checks passed.")
	}
	p.put("\n")
	return p
}

// about describes the version and the scope of a resource.
func (c *resourceReport) about() string {
	parts := []string{c.Version}
	switch {
	case c.Namespace != "":
		parts = append(parts, "namespace "+c.Namespace)
	case c.need.Namespaced:
		parts = append(parts, "all namespaces")
	default:
		parts = append(parts, "cluster-scoped")
	}
	return strings.Join(parts, ", ")
}
