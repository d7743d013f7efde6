package clients

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
)

// kubectl runs the kubectl that e2e/build made.
type kubectl struct {
	t    *testing.T
	path string
	home string
	base []string
}

func newKubectl(t *testing.T, s server) kubectl {
	t.Helper()
	dir, err := controlplane.Binaries(patience.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return kubectl{t, filepath.Join(dir, "kubectl"), t.TempDir(), []string{"--kubeconfig", s.kubeconfig(t)}}
}

func (k kubectl) command(input string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(patience.Context(k.t), k.path, append(args, k.base...)...)
	cmd.Env = []string{
		"HOME=" + k.home, "PATH=" + os.Getenv("PATH"), "TZ=UTC",
		"KUBE_EDITOR=sed -i s/tier:.edited/tier:\\ by-hand/",
	}
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	return cmd
}

// run returns what kubectl printed, the errors last, and whether it succeeded.
func (k kubectl) run(input string, args ...string) (string, bool) {
	k.t.Helper()
	cmd := k.command(input, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		k.t.Fatal(err)
	}
	return stdout.String() + stderr.String(), err == nil
}

const web = `
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {tier: front}
spec:
  containers:
  - name: main
    image: example.com/web:1
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: main
        image: example.com/shop:1
`

const settings = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data: {colour: green}
`

// step is one call of kubectl. The steps of a session build on each other.
type step struct {
	args  string
	input string
	fails bool
	want  string // a regular expression for the output
	// differs says why both servers may print something else than each other; otherwise
	// they must agree.
	differs string
}

const (
	noDefaults = "the embedded server sets no defaults"
	catalogue  = "the servers are of different versions and serve different kinds"
)

var session = []step{
	{args: "version", want: `Server Version: v1\.3\d`, differs: catalogue},
	{args: "api-resources", want: `(?m)^pods\s+po\s+v1\s+true\s+Pod$[\s\S]*^deployments\s+deploy\s+apps/v1\s+true\s+Deployment$`, differs: catalogue},
	{args: "api-resources --api-group=apps -o name", want: `deployments.apps`},
	{args: "api-resources --namespaced=false --api-group=rbac.authorization.k8s.io --no-headers", want: `clusterroles`},
	{args: "get pods", want: `No resources found in \S+ namespace`},
	{args: "get pod web", fails: true, want: `Error from server \(NotFound\): pods "web" not found`},
	{args: "get nonsense", fails: true, want: `the server doesn't have a resource type "nonsense"`},
	{args: "apply -f -", input: web, want: "pod/web created\ndeployment.apps/shop created"},
	{args: "apply -f -", input: web, want: "pod/web unchanged\ndeployment.apps/shop unchanged"},
	{args: "apply -f -", input: strings.ReplaceAll(web, "web:1", "web:2"), want: "pod/web configured\n"},
	{args: "apply --server-side -f -", input: settings, want: "configmap/settings serverside-applied"},
	{args: "apply --server-side --field-manager=other -f -", input: strings.ReplaceAll(settings, "green", "blue"), fails: true, want: `conflict[\s\S]*\.data\.colour`},
	{args: "apply --server-side --field-manager=other --force-conflicts -f -", input: strings.ReplaceAll(settings, "green", "blue"), want: "serverside-applied"},
	{args: "get configmap settings -o jsonpath={.data.colour}", want: `^blue$`},
	{args: "get pods", want: `NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE\nweb\s+0/1\s+Pending\s+0\s+\S+\n`},
	{args: "get pods -o wide --show-labels", want: `NOMINATED NODE\s+READINESS GATES\s+LABELS\nweb .*tier=front`},
	{args: "get pod,deployment -o name", want: "^pod/web\ndeployment.apps/shop\n$"},
	{args: "get pod web -o jsonpath={.spec.containers[0].image}", want: `^example.com/web:2$`},
	{args: "get pods -o custom-columns=N:.metadata.name,T:.metadata.labels.tier", want: "^N\\s+T\nweb\\s+front\n"},
	{args: "get pods --field-selector=status.phase=Pending -o name", want: "^pod/web\n$"},
	{args: "get pods --field-selector=spec.nothing=1", fails: true, want: `field label not supported`},
	{args: "get deployment shop", want: `NAME\s+READY\s+UP-TO-DATE\s+AVAILABLE\s+AGE\nshop\s+0/2\s+0\s+0\s+\S+\n`},
	{args: "describe pod web", want: `Name:\s+web\nNamespace:\s+\S+[\s\S]*Labels:\s+tier=front[\s\S]*Image:\s+example.com/web:2`, differs: noDefaults},
	{args: "describe deployment shop", want: `Name:\s+shop[\s\S]*Replicas:\s+2 desired`, differs: noDefaults},
	{args: "describe configmap settings", want: `Data\n====\ncolour:\n----\nblue`},
	{args: "label pod web tier=back", fails: true, want: `'tier' already has a value`},
	{args: "label pod web tier=edited --overwrite", want: `pod/web labeled`},
	{args: "get pods -l tier=edited -o name", want: `^pod/web\n$`},
	{args: "get pods -l tier=front", want: `No resources found`},
	{args: "edit pod web", want: `pod/web edited`},
	{args: "get pod web -o jsonpath={.metadata.labels.tier}", want: `^by-hand$`},
	{args: "annotate pod web note=hello", want: `pod/web annotated`},
	{args: `patch pod web -p {"metadata":{"labels":{"more":"1"}}}`, want: `pod/web patched`},
	{args: `patch pod web --type=json -p [{"op":"remove","path":"/metadata/labels/more"}]`, want: `pod/web patched`},
	{args: `patch pod web --type=merge -p {"metadata":{"labels":{"more":null}}}`, want: `pod/web patched \(no change\)`},
	{args: "get pod web --show-labels --no-headers", want: `tier=by-hand\n$`},
	{args: "scale deployment shop --replicas=3", want: `deployment.apps/shop scaled`},
	{args: "get deployment shop -o jsonpath={.spec.replicas}/{.metadata.generation}", want: `^3/2$`},
	{args: "set image deployment/shop main=example.com/shop:2", want: `deployment.apps/shop image updated`},
	{args: "wait pod/web --for=jsonpath={.status.phase}=Pending --timeout=60s", want: `pod/web condition met`},
	{args: "create secret generic keys --from-literal=a=b", want: `secret/keys created`},
	{args: "get secret keys -o jsonpath={.data.a}", want: `^Yg==$`},
	{args: "create secret generic keys --from-literal=a=b", fails: true, want: `Error from server \(AlreadyExists\)|error: failed to create secret secrets "keys" already exists`},
	{args: "delete pod web", want: `pod "web" deleted`},
	{args: "delete pod web", fails: true, want: `Error from server \(NotFound\): pods "web" not found`},
	{args: "delete pod web --ignore-not-found", want: `^$`},
	{args: "delete deployment,secret --all", want: `deployment.apps "shop" deleted[\s\S]*secret "keys" deleted`},
	{args: "delete -f -", input: settings, want: `configmap "settings" deleted`},
	{args: "get all", want: `No resources found`},
	{args: "explain pod.spec.containers", want: `KIND: +Pod[\s\S]*FIELD: containers <\[\]Container>[\s\S]*List of containers belonging to the pod[\s\S]*  name\s+<string> -required-`, differs: "no enums, and the documentation of 1.37"},
	{args: "explain deployments.spec.strategy.rollingUpdate", want: `GROUP: +apps[\s\S]*maxSurge\s+<IntOrString>`, differs: "no link to default values"},
	{args: "explain pod.spec.colour", fails: true, want: `field "colour" does not exist`},
}

func TestKubectlWorks(t *testing.T) {
	printed := map[string][]string{}
	onBoth(t, func(t *testing.T, s server) {
		k := newKubectl(t, s)
		for _, step := range session {
			out, ok := k.run(step.input, strings.Fields(step.args)...)
			if ok == step.fails {
				t.Errorf("kubectl %s: succeeded: %t\n%s", step.args, ok, out)
			}
			if !regexp.MustCompile(step.want).MatchString(out) {
				t.Errorf("kubectl %s: want %s, got\n%s", step.args, step.want, out)
			}
			printed[s.name] = append(printed[s.name], plain(out, s))
		}
	})
	for i, step := range session {
		if len(printed["embedded"]) <= i || len(printed["real"]) <= i {
			break // one of them did not get this far, which has been reported
		}
		if diff := cmp.Diff(printed["real"][i], printed["embedded"][i]); diff != "" && step.differs == "" {
			t.Errorf("kubectl %s: printed something else for the embedded server (+) than for the real one (-):\n%s", step.args, diff)
		}
	}
}

var (
	age    = regexp.MustCompile(`\b\d+(ms|s|m\d+s|m)\b`)
	spaces = regexp.MustCompile(` {2,}`)
)

// plain takes out of an output what differs from one run to the next.
func plain(out string, s server) string {
	out = strings.ReplaceAll(out, s.namespace, "NAMESPACE")
	out = strings.ReplaceAll(out, strings.TrimPrefix(s.config.Host, "https://"), "SERVER")
	return spaces.ReplaceAllString(age.ReplaceAllString(out, "AGE"), "  ") // columns are as wide as the longest age
}

// Custom resources are known to kubectl as soon as they are defined.
func TestKubectlKnowsCustomResources(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		k := newKubectl(t, s)
		definition, err := widgets().MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []step{
			{args: "apply -f -", input: string(definition), want: `customresourcedefinition.apiextensions.k8s.io/widgets.example.com created`},
			{args: "wait crd/widgets.example.com --for=condition=Established --timeout=60s", want: "condition met"},
			{args: "apply -f -", input: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`, want: "widget.example.com/w created"},
			{args: "get wd", want: `NAME\s+AGE\nw\s+\S+\n`},
			{args: "get widgets.example.com w -o jsonpath={.spec.size}", want: `^1$`},
			{args: "describe widget w", want: `Kind:\s+Widget[\s\S]*Size:\s+1`},
			{args: "patch widget w --type=merge -p {\"spec\":{\"size\":2}}", want: "patched"},
			{args: "apply -f -", input: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":3}}`, want: "widget.example.com/w configured"},
			{args: "delete widget w", want: `widget.example.com "w" deleted`},
			{args: "delete crd widgets.example.com", want: `"widgets.example.com" deleted`},
		} {
			if out, ok := k.run(step.input, strings.Fields(step.args)...); !ok || !regexp.MustCompile(step.want).MatchString(out) {
				t.Errorf("kubectl %s: want %s, got\n%s", step.args, step.want, out)
			}
		}
	})
}

func TestKubectlWatches(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		k := newKubectl(t, s)
		if out, ok := k.run(web, "apply", "-f", "-"); !ok {
			t.Fatal(out)
		}
		cmd := k.command("", "get", "pods", "-w", "--show-labels", "--output-watch-events")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		lines := make(chan string, 100)
		go func() {
			defer close(lines)
			for sc := bufio.NewScanner(stdout); sc.Scan(); {
				lines <- sc.Text()
			}
		}()
		expect := func(want string) {
			t.Helper()
			select {
			case line, ok := <-lines:
				if strings.HasPrefix(line, "MODIFIED") && strings.Contains(line, "Terminating") {
					line, ok = <-lines // the real server marks a pod before it deletes it
				}
				if !ok || !regexp.MustCompile(want).MatchString(line) {
					t.Errorf("got %q, want %s", line, want)
				}
			case <-time.After(patience.Limit):
				t.Fatalf("%s did not come", want)
			}
		}
		expect(`^EVENT\s+NAME\s+READY`)
		expect(`^ADDED\s+web\s.*tier=front`)
		if out, ok := k.run("", "label", "pod", "web", "tier=back", "--overwrite"); !ok {
			t.Fatal(out)
		}
		expect(`^MODIFIED\s+web\s.*tier=back`)
		if out, ok := k.run("", "delete", "pod", "web", "--now"); !ok {
			t.Fatal(out)
		}
		// A pod that no kubelet runs is deleted at once.
		expect(`^DELETED\s+web\s.*tier=back`)
	})
}

// Permissions are asked about and impersonated.
func TestKubectlKnowsPermissions(t *testing.T) {
	const rules = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
`
	printed := map[string][]string{}
	steps := []step{
		{args: "apply -f -", input: rules, want: `role.rbac.authorization.k8s.io/reader created\nserviceaccount/robot created`},
		{args: "create rolebinding reader --role=reader --user=ann", want: `rolebinding.rbac.authorization.k8s.io/reader created`},
		{args: "auth whoami", want: `Username\s+admin\s+Groups\s+\[system:masters system:authenticated\]`, differs: "how they are authenticated"},
		{args: "auth whoami --as=ann --as-group=team", want: `Username\s+ann\s+Groups\s+\[team system:authenticated\]`},
		{args: "auth can-i delete nodes", want: `^yes\n`, differs: "the first asks for warnings"},
		{args: "auth can-i list pods --as=ann", want: `^yes\n`},
		{args: "auth can-i delete pods --as=ann", fails: true, want: `^no\n`},
		{args: "auth can-i list pods --as=ann -A", fails: true, want: `^no\n`},
		{args: "auth can-i get /version --as=ann", want: `^yes\n`},
		{args: "auth can-i --list --as=ann", want: `pods\s+\[\]\s+\[\]\s+\[get list\]`, differs: "the order is that of a map"},
		{args: "get pods --as=ann", want: `No resources found`},
		{args: "get secrets --as=ann", fails: true, want: `Error from server \(Forbidden\): secrets is forbidden: User "ann" cannot list resource "secrets" in API group "" in the namespace`},
		{args: "create token robot", want: `^\S+\.\S+\.\S+\s*$`, differs: "tokens are random"},
		{args: "create token absent", fails: true, want: `error: failed to create token: serviceaccounts "absent" not found`},
	}
	onBoth(t, func(t *testing.T, s server) {
		k := newKubectl(t, s)
		for _, step := range steps {
			out, ok := k.run(step.input, strings.Fields(step.args)...)
			if step.args == "auth can-i list pods --as=ann" && !ok { // the real server learns of roles later
				patience.Until(t, "the role to apply", func() bool { out, ok = k.run("", strings.Fields(step.args)...); return ok })
			}
			if ok == step.fails || !regexp.MustCompile(step.want).MatchString(out) {
				t.Errorf("kubectl %s: succeeded: %t, want %s, got\n%s", step.args, ok, step.want, out)
			}
			printed[s.name] = append(printed[s.name], plain(out, s))
		}
	})
	for i, step := range steps {
		if len(printed["embedded"]) > i && len(printed["real"]) > i && step.differs == "" && printed["embedded"][i] != printed["real"][i] {
			t.Errorf("kubectl %s: the embedded server printed\n%s\nthe real one\n%s", step.args, printed["embedded"][i], printed["real"][i])
		}
	}
}
