package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/object"
)

type explainFlags struct {
	url, controller, tokenFile, output string
}

func newExplainCommand(e *env) *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain KEY --url URL",
		Short: "Explain why a key is not being reconciled",
		Long: `Ask a running program why it does not reconcile an object: it waits in the queue, backs off
after an error, is held back because the cache is older than the program's own write, or the
controller does not work. The program serves the console, as Cluster.Serve does. Unless that listens
on a loopback address, it requires a token: the one that is configured, or the console-token in its
log.

KEY is NAMESPACE/NAME, or NAME for a cluster-scoped object. Without --controller it explains the
key for all controllers that know it.`,
		Example: `  kubectl port-forward deploy/website 8080 &
  tarn explain shop/web --url http://localhost:8080
  tarn explain shop/web --url http://localhost:8080 --controller website -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one key, such as shop/web, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd.Context(), e, flags, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.url, "url", "", "the `address` of the program, such as http://localhost:8080")
	f.StringVar(&flags.controller, "controller", "", "the `name` of one controller")
	f.StringVar(&flags.tokenFile, "token-file", "", "a `file` with the bearer token, if the program requires one")
	f.StringVarP(&flags.output, "output", "o", "text", "text or json")
	return cmd
}

var credentials = regexp.MustCompile(`^([a-z]+://)?.*@`)

// withoutCredentials returns the text of an address, which may be invalid, without user name and password.
func withoutCredentials(address string) string {
	return credentials.ReplaceAllString(address, "${1}xxxxx@")
}

// consoleURL returns the address of an endpoint of the console of a program.
func consoleURL(program, endpoint string, query url.Values) (string, error) {
	u, err := url.Parse(program)
	if program == "" || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--url must be the address of a program, such as http://localhost:8080, got %q", withoutCredentials(program))
	}
	if !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/debug/tarn") {
		u = u.JoinPath("debug/tarn")
	}
	u = u.JoinPath(endpoint)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func runExplain(ctx context.Context, e *env, flags explainFlags, key string) error {
	if _, err := object.Parse(key); err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "object: "))
	}
	if flags.output != "text" && flags.output != "json" {
		return usagef("--output must be text or json, got %q", flags.output)
	}
	query := url.Values{"key": {key}}
	if flags.controller != "" {
		query.Set("controller", flags.controller)
	}
	address, err := consoleURL(flags.url, "explain", query)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body, err := fetchConsole(ctx, address, flags.tokenFile)
	if err != nil {
		return err
	}
	var explanation console.Explanation
	if err := json.Unmarshal(body, &explanation); err != nil {
		return fmt.Errorf("%s is not a console of Tarn: %w", withoutCredentials(flags.url), err)
	}
	if flags.output == "json" {
		fmt.Fprintf(e.out, "%s\n", body)
		return nil
	}
	printExplanation(e.out, explanation)
	return nil
}

// maxAnswer is the largest response of a console that is read.
const maxAnswer = 64 << 20

func fetchConsole(ctx context.Context, address, tokenFile string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, usagef("--url: %s", lastOf(err))
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, usagef("--token-file %s: %s", tokenFile, reason(err))
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s (--url %s)", network(err), req.URL.Host)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: %s", req.URL.Host, network(err))
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	var problem struct{ Error string }
	text := oneLine(string(body))
	if json.Unmarshal(body, &problem) == nil && problem.Error != "" {
		text = problem.Error
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s requires a bearer token, which is configured or in the log of the program; give it with --token-file", req.URL.Host)
	case resp.StatusCode == http.StatusNotFound && problem.Error == "":
		return nil, fmt.Errorf("%s has no console at %s; serve Cluster.Handler there", req.URL.Host, strings.TrimSuffix(req.URL.Path, "explain"))
	}
	return nil, fmt.Errorf("%s: %s", req.URL.Host, text)
}

func printExplanation(w io.Writer, x console.Explanation) {
	if len(x.Controllers) == 0 {
		fmt.Fprintf(w, "%s: the program has no controllers\n", plain(x.Key))
	}
	line := func(format string, args ...any) { fmt.Fprintln(w, plain(fmt.Sprintf(format, args...))) }
	for i, c := range x.Controllers {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line("%s in %s: %s", x.Key, c.Controller, c.State)
		line("  %s", c.Why)
		if c.Do != "" {
			line("  %s", c.Do)
		}
		for _, o := range c.Objects {
			if o.Exists {
				line("  %s: version %s", o.Mirror, o.Version)
			} else {
				line("  %s: absent, %s", o.Mirror, o.Why)
			}
		}
		if r := c.Reconcile; r != nil {
			text := fmt.Sprintf("  last reconcile at %s, attempt %d, %s: %s", r.At, r.Attempt, short(time.Duration(r.Seconds*float64(time.Second))), r.Outcome)
			if r.Error != "" {
				text += ": " + r.Error
			}
			line("%s", text)
			for _, l := range r.Log {
				line("    %s", l)
			}
		}
	}
}
