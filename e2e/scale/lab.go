package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
)

// lab has a control plane full of objects.
type lab struct {
	settings
	plane  *controlplane.Plane
	writer *writer
	tell   func(format string, args ...any)
	turns  int
}

// furnish defines the custom resource and writes all objects.
func (l *lab) furnish(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(l.plane.Config())
	if err != nil {
		return err
	}
	for i := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}
		if _, err := clients.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	client, err := dynamic.NewForConfig(l.plane.Config())
	if err != nil {
		return err
	}
	for _, res := range append(small(l.kinds), widgets) {
		if err := define(ctx, client, res); err != nil {
			return err
		}
	}
	tenth := (l.pods + l.widgets + 9) / 10
	next := tenth
	err = l.writer.fill(ctx, l.pods, l.widgets, func(done int) {
		if done >= next {
			l.tell("%d objects written", done)
			next = done + tenth
		}
	})
	if err != nil {
		return err
	}
	if err := l.writer.fillSmall(ctx, small(l.kinds)); err != nil {
		return err
	}
	// A server that starts with them has them in its caches when it is ready.
	l.tell("restarting the API server")
	if err := l.restart(ctx); err != nil {
		return err
	}
	// The cache of a custom resource is filled before the first side lists it.
	return eventually(ctx, "watches of the custom resources", func() error {
		for _, res := range append(small(l.kinds), widgets) {
			w, err := client.Resource(res.GVR()).Watch(ctx, metav1.ListOptions{
				SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			if err != nil {
				return err
			}
			w.Stop()
		}
		return nil
	})
}

// define creates the definition of a custom resource.
func define(ctx context.Context, client dynamic.Interface, res object.Resource) error {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": res.Resource + "." + res.Group},
		"spec": map[string]any{
			"group": res.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": res.Resource, "singular": strings.ToLower(res.Kind), "kind": res.Kind, "listKind": res.Kind + "List"},
			"versions": []any{map[string]any{
				"name": res.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	crds := object.Resource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := client.Resource(crds.GVR()).Create(ctx, crd, metav1.CreateOptions{})
	return err
}

func (l *lab) restart(ctx context.Context) error {
	if err := l.plane.APIServer.Kill(); err != nil {
		return err
	}
	return l.plane.APIServer.Start(ctx)
}

// measure runs all steps for each side in turn.
func (l *lab) measure(ctx context.Context) (map[string][]result, error) {
	best := map[string][]result{}
	for round := range l.rounds {
		sides := l.sides()
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			l.tell("%s, round %d of %d", s, round+1, l.rounds)
			results, err := l.turn(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			if l.managers {
				r, err := l.manager(ctx, s)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", s, err)
				}
				results = append(results, r)
			}
			best[s] = least(best[s], results)
		}
	}
	return best, nil
}

// least takes the least of each figure of two rounds.
func least(a, b []result) []result {
	if a == nil {
		return b
	}
	for i := range a {
		a[i].Wall, a[i].CPU, a[i].Peak = min(a[i].Wall, b[i].Wall), min(a[i].CPU, b[i].CPU), min(a[i].Peak, b[i].Peak)
		a[i].Lists, a[i].Heap = min(a[i].Lists, b[i].Lists), min(a[i].Heap, b[i].Heap)
		a[i].Goroutines = min(a[i].Goroutines, b[i].Goroutines)
		for j := range a[i].Reads {
			a[i].Reads[j].CPU = min(a[i].Reads[j].CPU, b[i].Reads[j].CPU)
		}
	}
	return a
}

// start starts a child for a task. stop ends it.
func (l *lab) start(ctx context.Context, t task) (c *conversation, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self, childArg)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() error {
		_ = stdin.Close() // which ends it
		return cmd.Wait()
	}
	config := l.plane.Config()
	t.Host, t.CA, t.Cert, t.Key = config.Host, config.CAData, config.CertData, config.KeyData
	c = &conversation{in: json.NewEncoder(stdin), out: bufio.NewReader(stdout)}
	if err := c.say(t); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return c, stop, nil
}

// manager measures the start of a manager with many kinds.
func (l *lab) manager(ctx context.Context, side string) (r result, err error) {
	c, stop, err := l.start(ctx, task{Side: side, Kinds: l.kinds})
	if err != nil {
		return result{}, err
	}
	r, err = c.hear()
	return r, errors.Join(err, stop())
}

// turn is one turn of one side, in a separate process.
func (l *lab) turn(ctx context.Context, side string) (results []result, err error) {
	c, stop, err := l.start(ctx, task{Side: side, Objects: l.pods + l.widgets + 2, Pods: l.pods})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	l.turns++
	step := func(name string) string { return fmt.Sprintf("%s-%d", name, l.turns) }

	hear := func() (result, error) { return c.hear() }
	relist := func() (result, error) { return c.ask(command{Step: "relist"}) }
	churn := func() (result, error) {
		if err := c.say(command{Step: "churn", Until: step("churn")}); err != nil {
			return result{}, err
		}
		if err := l.writer.change(ctx, step("churn"), l.churn); err != nil {
			return result{}, err
		}
		return c.hear()
	}
	restart := func() (result, error) {
		if err := c.say(command{Step: "restart", Until: step("restart")}); err != nil {
			return result{}, err
		}
		if err := l.restart(ctx); err != nil {
			return result{}, err
		}
		ready := time.Now()
		if err := l.writer.mark(ctx, step("restart")); err != nil {
			return result{}, err
		}
		r, err := c.hear()
		r.Wall = time.Since(ready)
		return r, err
	}
	steps := []func() (result, error){hear, relist, churn, restart}
	if l.managers {
		steps = []func() (result, error){hear, churn, func() (result, error) { return c.ask(command{Step: "reads"}) }}
	}
	for _, do := range steps {
		r, err := do()
		if err != nil {
			return nil, err
		}
		l.tell("  %s: %s", r.Step, r.Wall.Round(time.Millisecond))
		results = append(results, r)
	}
	// Nothing has been written since the last step.
	has, err := l.truth(ctx)
	if held := results[len(results)-1].Held; err == nil && held != has {
		err = fmt.Errorf("the mirrors hold %+v in the end and the server has %+v", held, has)
	}
	return results, err
}

// truth returns what the server has.
func (l *lab) truth(ctx context.Context) (f fingerprint, err error) {
	client, err := metadata.NewForConfig(l.plane.Config())
	if err != nil {
		return f, err
	}
	for _, res := range []object.Resource{{Version: "v1", Resource: "pods"}, widgets} {
		opts := metav1.ListOptions{Limit: 5000}
		for {
			list, err := client.Resource(res.GVR()).List(ctx, opts)
			if err != nil {
				return f, err
			}
			for i := range list.Items {
				f.add(&list.Items[i])
			}
			if opts.Continue = list.Continue; opts.Continue == "" {
				break
			}
		}
	}
	return f, nil
}

// conversation is the parent's end of a child's standard input and output.
type conversation struct {
	in  *json.Encoder
	out *bufio.Reader
}

func (c *conversation) say(v any) error { return c.in.Encode(v) }

func (c *conversation) hear() (r result, err error) {
	text, err := c.out.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return r, errors.New("the process ended early")
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

func (c *conversation) ask(v any) (result, error) {
	if err := c.say(v); err != nil {
		return result{}, err
	}
	return c.hear()
}

// eventually polls for something that takes long with so many objects.
func eventually(ctx context.Context, what string, holds func() error) error {
	return patience.ForUpTo(ctx, 5*time.Minute, what, holds)
}
