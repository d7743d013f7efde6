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

// operator is a module with suites that need an API server.
type operator struct {
	name, path string
	version    string // that of this module's go.mod if empty
	suites     []string
	rewrite    func(dir string) error // changes the copy; nil for no change
}

// operators are the modules whose suites are run: controller-runtime, and public operators whose
// suites were written for envtest.
var operators = []operator{
	{"controller-runtime", "sigs.k8s.io/controller-runtime", "", []string{
		"pkg/client", "pkg/cache", "pkg/source", "pkg/manager", "pkg/builder", "pkg/controller", "pkg/internal/controller", "pkg/internal/recorder",
	}, nil},
	{"controller-runtime-on-tarn", "sigs.k8s.io/controller-runtime", "", []string{
		"pkg/cache", "pkg/client", "pkg/source", "pkg/manager", "pkg/builder", "pkg/controller", "pkg/internal/controller", "pkg/cluster",
	}, byDefault.use},
	{"jobset", "sigs.k8s.io/jobset", "v0.10.1", []string{"test/integration/controller", "test/integration/webhook"}, nil},
	{"lws", "sigs.k8s.io/lws", "v0.6.0", []string{"test/integration/controllers", "test/integration/webhooks"}, nil},
	{"jobset-on-tarn", "sigs.k8s.io/jobset", "v0.12.0", []string{"test/integration/controller", "test/integration/webhook"}, byTheLine.use},
	{"lws-on-tarn", "sigs.k8s.io/lws", "v0.9.0", []string{"test/integration/controllers", "test/integration/webhooks"}, byTheLine.use},
	{"rabbitmq", "github.com/rabbitmq/cluster-operator/v2", "v2.12.1", []string{"controllers", "api/v1beta1"}, nil},
}

// exceptions lists the specs that are expected to fail: "both", "embedded" or "real", the
// spec, and after a tab the reason.
const exceptions = "upstream/suites.txt"

// suiteLimit ends a suite that hangs.
const suiteLimit = 30 * time.Minute

// The servers that the suites run on.
const (
	embedded = "embedded"
	genuine  = "real"
)

// runSuites runs the suites whose names match against each of the servers, every suite on a
// new one, and compares the failures with the exceptions. With two servers, it lists the specs that end differently.
func runSuites(ctx context.Context, sides []string, verbose bool, wanted *regexp.Regexp, keep string) error {
	folder := keep
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "upstream-"); err != nil {
			return err
		}
		defer os.RemoveAll(folder)
	}
	servers := map[string]server{genuine: servePlane}
	if slices.Contains(sides, embedded) {
		program := filepath.Join(folder, "tarn-apiserver")
		if _, err := commandIn(ctx, "..", "go", "build", "-o", program, "./cmd/tarn-apiserver"); err != nil {
			return err
		}
		servers[embedded] = func(ctx context.Context, kubeconfig string) (func() error, error) {
			return serveTarn(ctx, program, kubeconfig)
		}
	}
	expected, outcomes := map[string]map[string]string{}, map[string]map[string]outcome{}
	for _, side := range sides {
		var err error
		if expected[side], err = readExceptions(exceptions, side); err != nil {
			return err
		}
		outcomes[side] = map[string]outcome{}
	}
	for _, op := range operators {
		source := "" // copied for the first suite
		for _, suite := range op.suites {
			name := op.name + "/" + suite
			if !wanted.MatchString(name) {
				for _, side := range sides {
					maps.DeleteFunc(expected[side], func(spec, _ string) bool { return strings.HasPrefix(spec, name+": ") })
				}
				continue
			}
			if source == "" {
				var err error
				if source, err = op.copied(ctx, filepath.Join(folder, op.name)); err != nil {
					return err
				}
			}
			dir, files := filepath.Join(source, filepath.FromSlash(suite)), filepath.Join(folder, strings.ReplaceAll(name, "/", "-"))
			if _, err := commandIn(ctx, dir, "go", "test", "-c", "-vet=off", "-o", files+".test", "."); err != nil {
				return err
			}
			for _, side := range sides {
				began := time.Now()
				ended, err := runSuite(ctx, dir, name, files, servers[side], func(spec string) bool { return expected[side][spec] != "" })
				if err != nil {
					return err
				}
				passed := 0
				for spec, o := range ended {
					outcomes[side][spec] = o
					if o.failure == "" {
						passed += o.count
					}
				}
				fmt.Printf("%s\t%s\t%d specs passed in %s\n", name, side, passed, time.Since(began).Round(time.Second))
			}
		}
	}
	var errs []error
	for _, side := range sides {
		errs = append(errs, report(side, outcomes[side], expected[side], verbose))
	}
	if len(sides) > 1 {
		compare(outcomes[embedded], outcomes[genuine])
	}
	return errors.Join(errs...)
}

// compare prints the specs that end differently on the two servers.
func compare(here, there map[string]outcome) {
	words := map[bool]string{true: "passes", false: "fails"}
	n := 0
	for _, spec := range slices.Sorted(maps.Keys(here)) {
		if other, ran := there[spec]; ran && (here[spec].failure == "") != (other.failure == "") {
			n++
			fmt.Printf("DIFFERENT\t%s\t%s on the embedded server, %s on the real one\n", spec, words[here[spec].failure == ""], words[other.failure == ""])
		}
	}
	fmt.Printf("%d specs end differently\n", n)
}

// server starts an API server and writes its kubeconfig. stop ends it.
type server func(ctx context.Context, kubeconfig string) (stop func() error, err error)

// outcome is how the specs of one name ended. Some names occur more than once.
type outcome struct {
	count   int
	failure string // "" if all passed
}

// report prints the failures on a server and the wrong exceptions.
func report(side string, outcomes map[string]outcome, expected map[string]string, verbose bool) error {
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
				fmt.Printf("PASS\t%s\t%s\tlisted in %s\n", side, spec, exceptions)
			}
			continue
		case listed:
			fmt.Printf("fail\t%s\t%s\t%s\n", side, spec, reason)
		default:
			wrong++
			fmt.Printf("FAIL\t%s\t%s\n", side, spec)
		}
		if verbose {
			fmt.Println(o.failure)
		}
	}
	for _, spec := range slices.Sorted(maps.Keys(expected)) {
		if _, ran := outcomes[spec]; !ran {
			wrong++
			fmt.Printf("MISSING\t%s\t%s\tlisted in %s\n", side, spec, exceptions)
		}
	}
	fmt.Printf("\n%s: %d of %d specs passed\n", side, passed, total)
	if wrong > 0 {
		return fmt.Errorf("%s: %d specs did not end as %s has it", side, wrong, exceptions)
	}
	return nil
}

// runSuite runs a compiled suite. Some specs race with the server, such as those with a
// cancelled context, so one that should not fail gets two more tries, in a new process and on a
// new server. files is the prefix of the files that are written.
func runSuite(ctx context.Context, dir, name, files string, serve server, mayFail func(spec string) bool) (map[string]outcome, error) {
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
	found, err := filepath.Glob(filepath.Join(dir, "*suite_test.go"))
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

// copyTo copies the module out of the module cache, which is read-only.
func (op operator) copyTo(ctx context.Context, to string) (string, error) {
	if op.version == "" {
		out, err := command(ctx, "go", "list", "-m", "-f", "{{.Version}}", op.path)
		if err != nil {
			return "", err
		}
		op.version = strings.TrimSpace(string(out))
	}
	out, err := commandIn(ctx, os.TempDir(), "go", "mod", "download", "-json", op.path+"@"+op.version)
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", op.path, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(module.Dir)); err != nil && !errors.Is(err, os.ErrExist) {
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

// copied returns a copy of the module with its changes.
func (op operator) copied(ctx context.Context, to string) (string, error) {
	dir, err := op.copyTo(ctx, to)
	if err == nil && op.rewrite != nil {
		err = op.rewrite(dir)
	}
	return dir, err
}

// serveTarn starts `tarn apiserver` as envtest starts kube-apiserver. stop ends it.
func serveTarn(ctx context.Context, program, kubeconfig string) (stop func() error, err error) {
	cmd := exec.CommandContext(ctx, program, "--tls", "--no-controllers", "--overwrite", "--kubeconfig-out", kubeconfig)
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
