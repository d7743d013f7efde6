package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// runtimeSuites are the packages of controller-runtime whose suites need an API server.
var runtimeSuites = []string{
	"client", "cache", "source", "manager", "builder", "controller", "internal/controller", "internal/recorder",
}

// exceptions lists the specs that are expected to fail: "both", "embedded" or "real", the
// spec, and after a tab the reason.
const exceptions = "upstream/suites.txt"

// suiteLimit ends a suite that hangs.
const suiteLimit = 30 * time.Minute

// runSuites runs controller-runtime's suites against `tarn apiserver`, or kube-apiserver,
// each on a new server, and compares the failures with the exceptions.
func runSuites(ctx context.Context, genuine, verbose bool, wanted *regexp.Regexp, keep string) error {
	side := "embedded"
	if genuine {
		side = "real"
	}
	expected, err := readExceptions(exceptions, side)
	if err != nil {
		return err
	}
	folder := keep
	if folder == "" {
		if folder, err = os.MkdirTemp("", "upstream-"); err != nil {
			return err
		}
		defer os.RemoveAll(folder)
	}
	source, err := copyModule(ctx, "sigs.k8s.io/controller-runtime", filepath.Join(folder, "controller-runtime"))
	if err != nil {
		return err
	}
	serve := server(servePlane)
	if !genuine {
		program := filepath.Join(folder, "tarn-apiserver")
		if _, err := commandIn(ctx, "..", "go", "build", "-o", program, "./cmd/tarn-apiserver"); err != nil {
			return err
		}
		serve = func(ctx context.Context, kubeconfig string) (func() error, error) {
			return serveTarn(ctx, program, kubeconfig)
		}
	}
	outcomes := map[string]outcome{}
	for _, name := range runtimeSuites {
		if !wanted.MatchString(name) {
			maps.DeleteFunc(expected, func(spec, _ string) bool { return strings.HasPrefix(spec, name+": ") })
			continue
		}
		began := time.Now()
		ended, err := runSuite(ctx, filepath.Join(source, "pkg", name), name, filepath.Join(folder, strings.ReplaceAll(name, "/", "-")), serve,
			func(spec string) bool { return expected[spec] != "" })
		if err != nil {
			return err
		}
		passed := 0
		for spec, o := range ended {
			outcomes[spec] = o
			if o.failure == "" {
				passed += o.count
			}
		}
		fmt.Printf("%s\t%d specs passed in %s\n", name, passed, time.Since(began).Round(time.Second))
	}
	return report(outcomes, expected, verbose)
}

// server starts an API server and writes its kubeconfig. stop ends it.
type server func(ctx context.Context, kubeconfig string) (stop func() error, err error)

// outcome is how the specs of one name ended. Some names occur more than once.
type outcome struct {
	count   int
	failure string // "" if all passed
}

// report prints the failures and the wrong exceptions.
func report(outcomes map[string]outcome, expected map[string]string, verbose bool) error {
	passed, total, wrong := 0, 0, 0
	for _, spec := range slices.Sorted(maps.Keys(outcomes)) {
		o := outcomes[spec]
		total += o.count
		reason, listed := expected[spec]
		switch {
		case o.failure == "":
			passed += o.count
			if listed {
				wrong++
				fmt.Printf("PASS\t%s\tlisted in %s\n", spec, exceptions)
			}
			continue
		case listed:
			fmt.Printf("fail\t%s\t%s\n", spec, reason)
		default:
			wrong++
			fmt.Printf("FAIL\t%s\n", spec)
		}
		if verbose {
			fmt.Println(o.failure)
		}
	}
	for _, spec := range slices.Sorted(maps.Keys(expected)) {
		if _, ran := outcomes[spec]; !ran {
			wrong++
			fmt.Printf("MISSING\t%s\tlisted in %s\n", spec, exceptions)
		}
	}
	fmt.Printf("\n%d of %d specs passed\n", passed, total)
	if wrong > 0 {
		return fmt.Errorf("%d specs did not end as %s has it", wrong, exceptions)
	}
	return nil
}

// runSuite compiles and runs one suite. Some specs race with the server, such as those with a
// cancelled context, so one that should not fail gets two more tries, in a new process and on a
// new server. files is the prefix of the files that are written.
func runSuite(ctx context.Context, dir, name, files string, serve server, mayFail func(spec string) bool) (map[string]outcome, error) {
	if _, err := commandIn(ctx, dir, "go", "test", "-c", "-vet=off", "-o", files+".test", "."); err != nil {
		return nil, err
	}
	outcomes, err := runSpecs(ctx, dir, name, files, serve, "")
	for try := 0; err == nil && try < 2; try++ {
		var again []string
		for spec, o := range outcomes {
			if o.failure != "" && !mayFail(spec) {
				words := strings.Fields(regexp.QuoteMeta(strings.TrimPrefix(spec, name+": ")))
				again = append(again, strings.Join(words, `\s+`))
			}
		}
		if len(again) == 0 {
			break
		}
		var retried map[string]outcome
		retried, err = runSpecs(ctx, dir, name, files, serve, strings.Join(again, "|"))
		for spec, o := range retried {
			if o.failure == "" {
				outcomes[spec] = outcome{count: outcomes[spec].count}
			}
		}
	}
	return outcomes, err
}

// runSpecs runs the specs of a compiled suite that a pattern matches, or all, on a server of
// their own.
func runSpecs(ctx context.Context, dir, name, files string, serve server, focus string) (_ map[string]outcome, err error) {
	entry, err := entryOf(dir)
	if err != nil {
		return nil, err
	}
	stop, err := serve(ctx, files+".kubeconfig")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ctx, cancel := context.WithTimeout(ctx, suiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, files+".test", "-test.run", entry, "-test.timeout", suiteLimit.String(),
		"-ginkgo.json-report", files+".json", "-ginkgo.no-color", "-ginkgo.focus", focus, "-ginkgo.timeout", suiteLimit.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+files+".kubeconfig")
	output, failed := cmd.CombinedOutput() // specs that fail make it fail
	raw, err := os.ReadFile(files + ".json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, errors.Join(failed, err), output)
	}
	return readReport(name, raw)
}

// entryOf returns a pattern of the test functions that run a package's suite.
func entryOf(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*_suite_test.go"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s: no suite: %w", dir, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`func (Test\w+)\(`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s: no test", found[0])
	}
	return "^" + string(m[1]) + "$", nil
}

// readReport returns the specs of a Ginkgo report that ran.
func readReport(name string, raw []byte) (map[string]outcome, error) {
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			CapturedGinkgoWriterOutput        string
			Failure                           struct{ Message string }
		}
	}
	if err := json.Unmarshal(raw, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	outcomes := map[string]outcome{}
	for _, s := range suites {
		for _, r := range s.SpecReports {
			if r.State == "skipped" || r.State == "pending" || r.LeafNodeType != "It" && r.State == "passed" {
				continue
			}
			spec := name + ": " + strings.Join(strings.Fields(strings.Join(append(r.ContainerHierarchyTexts, r.LeafNodeText), " ")), " ")
			if r.LeafNodeType != "It" {
				spec = name + ": " + r.LeafNodeType
			}
			o := outcomes[spec]
			o.count++
			if r.State != "passed" {
				o.failure += r.State + ": " + r.Failure.Message + "\n"
			}
			outcomes[spec] = o
		}
	}
	return outcomes, nil
}

// readExceptions returns the reasons by spec, of one side.
func readExceptions(file, side string) (map[string]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	expected := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: a line is not side, spec and reason, separated by tabs: %s", file, line)
		}
		if parts[0] == side || parts[0] == "both" {
			expected[parts[1]] = parts[2]
		}
	}
	return expected, nil
}

// copyModule copies a module out of the module cache, which is read-only.
func copyModule(ctx context.Context, path, to string) (string, error) {
	out, err := command(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(strings.TrimSpace(string(out)))); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return to, filepath.WalkDir(to, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(name, mode)
	})
}

// serveTarn starts `tarn apiserver`. stop ends it.
func serveTarn(ctx context.Context, program, kubeconfig string) (stop func() error, err error) {
	cmd := exec.CommandContext(ctx, program, "--tls", "--overwrite", "--kubeconfig-out", kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() { // its first line comes when it listens and the kubeconfig is there
		return nil, fmt.Errorf("tarn apiserver: %w\n%s", cmd.Wait(), complaint.Bytes())
	}
	return func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("tarn apiserver: %w\n%s", err, complaint.Bytes())
		}
		for lines.Scan() {
		}
		_ = cmd.Wait() // interrupted
		return nil
	}, nil
}

// servePlane starts etcd and kube-apiserver. stop ends them.
func servePlane(ctx context.Context, kubeconfig string) (stop func() error, err error) {
	plane, err := controlplane.New(ctx, controlplane.Options{APIServerArgs: []string{"--allow-privileged=true"}})
	if err != nil {
		return nil, err
	}
	cfg := plane.Config()
	err = clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"plane": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"admin": {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}},
		Contexts:       map[string]*api.Context{"plane": {Cluster: "plane", AuthInfo: "admin"}},
		CurrentContext: "plane",
	}, kubeconfig)
	if err != nil {
		return nil, errors.Join(err, plane.Close())
	}
	return plane.Close, nil
}
