package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

func TestMirrorsFollowAControlPlaneThatIsMistreated(t *testing.T) {
	t.Logf("-chaos.seed=%d -chaos.faults=%d -chaos.duration=%s", *seed, *faultCount, *duration)
	r := newRun(t)
	r.stop = r.start()
	defer r.stop()
	if err := r.quiet(true); err != nil {
		t.Fatal(err)
	}
	err := r.wreak()
	if err == nil {
		err = r.quiet(false)
	}
	if err != nil {
		t.Error(err)
	}
	r.report()
	r.stop()
	r.nothingIsLeft()
}

// run is one run of everything.
type run struct {
	t       *testing.T
	ctx     context.Context
	site    *site
	writers *scribe
	*ensemble
	stop func()

	began      time.Time
	kinds      map[string]*recoveries
	quietTimes int
	moments    int
	goroutines int // when everything was quiet for the first time
}

func newRun(t *testing.T) *run {
	t.Helper()
	plane := shared.Plane(t)
	direct := plane.Config()
	r := &run{t: t, ctx: t.Context(), site: &site{plane: plane}, began: time.Now(), kinds: map[string]*recoveries{}}
	var err error
	if r.writers, err = newScribe(direct); err != nil {
		t.Fatal(err)
	}
	if err := r.furnish(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.site.proxies = append(r.site.proxies, controlplane.StartProxy(t, plane.Address()))
	}
	h1 := r.site.proxies[1].Config(direct)
	h1.NextProtos = []string{"http/1.1"}
	if r.ensemble, err = assemble(r.ctx, r.site.proxies[0].Config(direct), h1, direct); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(direct) })
	return r
}

// furnish makes the namespaces and the custom resource.
func (r *run) furnish() error {
	all := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": widgets.Resource + "." + widgets.Group},
		"spec": map[string]any{
			"group": widgets.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": widgets.Resource, "singular": "widget", "kind": widgets.Kind, "listKind": widgets.Kind + "List"},
			"versions": []any{map[string]any{
				"name": widgets.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}}
	for _, ns := range namespaces {
		all = append(all, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns},
		}})
	}
	for _, obj := range all {
		res := object.Resource{Version: "v1", Resource: "namespaces"}
		if obj.GetKind() == "CustomResourceDefinition" {
			res = object.Resource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
		}
		if _, err := r.writers.client.Resource(res.GVR()).Create(r.ctx, obj, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// It is served some time after it was defined.
	for _, res := range []object.Resource{configMaps, pods, widgets} {
		if _, _, err := r.writers.canary(r.ctx, res, "0"); err != nil {
			return err
		}
	}
	return nil
}

// start starts forms, writers and readers. The returned function ends them and waits for
// that; calling it again does nothing.
func (r *run) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	var all sync.WaitGroup
	all.Go(func() {
		if err := r.ensemble.run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	for i := range *writers {
		all.Go(func() { r.writers.run(ctx, rand.New(rand.NewPCG(*seed, uint64(i)+1))) })
	}
	all.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, f := range r.forms {
				f.look()
			}
			<-tick.C
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
}

// wreak lets faults strike, until there were enough.
func (r *run) wreak() error {
	rng := rand.New(rand.NewPCG(*seed, 0))
	struck := 0
	for {
		for _, f := range deck(*faultCount, rng) {
			struck++
			if err := r.strike(struck, f, rng); err != nil {
				return fmt.Errorf("fault %d, %s: %w", struck, f.name, err)
			}
			if struck%25 == 0 {
				if err := r.quiet(true); err != nil {
					return fmt.Errorf("at a quiet point after %d faults: %w", struck, err)
				}
				r.progress(struck)
			}
			if *duration > 0 && time.Since(r.began) > *duration {
				return nil
			}
		}
		if *duration == 0 {
			return nil
		}
	}
}

// strike lets one fault strike, and measures how long it takes until every mirror has what
// is written after it. Sometimes it does not wait, so that the next fault strikes before
// all have recovered from this one.
func (r *run) strike(i int, f fault, rng *rand.Rand) error {
	kind := r.kinds[f.name]
	if kind == nil {
		kind = &recoveries{}
		r.kinds[f.name] = kind
	}
	kind.faults++
	if rng.IntN(3) == 0 {
		r.gate.Lock() // slow subscribers stand still meanwhile
		defer r.gate.Unlock()
	}
	if err := f.strike(r.ctx, r.site, rng); err != nil {
		return err
	}
	if rng.IntN(4) == 0 {
		return nil
	}
	healed := time.Now()
	if err := r.caughtUp(fmt.Sprint(i)); err != nil {
		return err
	}
	kind.took = append(kind.took, time.Since(healed))
	return r.moment(r.forms[rng.IntN(len(r.forms))])
}

// caughtUp writes a canary for each resource and waits until every mirror has it.
func (r *run) caughtUp(value string) error {
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	for _, res := range []object.Resource{configMaps, pods, widgets} {
		key, version, err := r.writers.canary(ctx, res, value)
		if err != nil {
			return err
		}
		for _, f := range r.forms {
			if f.resource() != res.String() {
				continue
			}
			if err := f.reaches(ctx, key, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// moment compares one mirror, while writers write, with what the server had at its version.
func (r *run) moment(f form) error {
	ok, err := f.moment(r.ctx)
	if ok {
		r.moments++
	}
	if ok || err == nil {
		return err
	}
	r.t.Logf("a moment of %s could not be compared: %v", f.title(), err)
	return nil
}

// quiet stops the writers and waits until everything is what a fresh list has. Forms that
// are slow to come back are left out where there is something to come.
func (r *run) quiet(leaveOut bool) error {
	r.writers.pause.Lock()
	defer r.writers.pause.Unlock()
	for _, f := range r.forms {
		if f.slow() && leaveOut {
			continue
		}
		err := eventually(r.ctx, f.title()+" to equal a fresh list", func() error {
			want, err := f.fresh(r.ctx)
			if err != nil {
				return err
			}
			// The API server itself may write, so that the list is not for ever.
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range 50 {
				if err = f.equals(want); err == nil {
					return nil
				}
				<-tick.C
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	r.quietTimes++
	if r.goroutines == 0 {
		r.goroutines = runtime.NumGoroutine()
	}
	var errs []error
	for _, f := range r.forms {
		for _, w := range f.wrong() {
			errs = append(errs, errors.New(w))
		}
	}
	return errors.Join(append(errs, r.noMore())...)
}

// noMore checks that there are not more goroutines and connections than there were, but
// for what comes and goes.
func (r *run) noMore() error {
	const some = 60
	return eventually(r.ctx, "goroutines and connections to be as few as before", func() error {
		if n := runtime.NumGoroutine(); n > r.goroutines+some {
			return fmt.Errorf("%d goroutines, after %d", n, r.goroutines)
		}
		for _, p := range r.site.proxies {
			if n := p.Counts().Open; n > some {
				return fmt.Errorf("%d connections through a proxy", n)
			}
		}
		return nil
	})
}

// nothingIsLeft checks that with the forms all connections have gone.
func (r *run) nothingIsLeft() {
	err := eventually(r.ctx, "connections to be closed", func() error {
		for _, c := range r.clients {
			c.CloseIdleConnections()
		}
		for _, p := range r.site.proxies {
			if n := p.Counts().Open; n > 0 {
				return fmt.Errorf("%d connections are open", n)
			}
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

func (r *run) progress(struck int) {
	r.t.Logf("%s: %d faults, %d writes, %d quiet points, %d moments compared, %d goroutines",
		time.Since(r.began).Round(time.Second), struck, r.writers.writes.Load(), r.quietTimes, r.moments, runtime.NumGoroutine())
}

// report prints the figures, and fails if something did not happen at all.
func (r *run) report() {
	var forms []figures
	ended := map[string]int64{}
	for _, f := range r.forms {
		forms = append(forms, f.figures())
		for reason, n := range forms[len(forms)-1].ended {
			ended[string(reason)] += n
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s, %d writers: %d writes, %d that failed\n%d quiet points and %d moments in between compared with the server's lists\n",
		*seed, time.Since(r.began).Round(time.Second), *writers, r.writers.writes.Load(), r.writers.failures.Load(), r.quietTimes, r.moments)
	for i, p := range r.site.proxies {
		c := p.Counts()
		fmt.Fprintf(&b, "proxy %d: %d connections, %d of them cut\n", i+1, c.Accepted, c.Cut)
	}
	fmt.Fprintln(&b)
	b.WriteString(table(r.kinds, forms))
	r.t.Logf("\n%s", b.String())
	if r.writers.writes.Load() == 0 || r.moments == 0 || ended["expired"] == 0 || ended["network"] == 0 {
		r.t.Error("writes, moments, expired versions or lost connections did not happen: this run proves little")
	}
}

// closeIdle closes the connections of a configuration's transport, which is shared.
func closeIdle(config *rest.Config) {
	if transport, err := rest.TransportFor(config); err == nil {
		if c, ok := transport.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}
