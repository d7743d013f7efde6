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
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

func TestMirrorsFollowAControlPlaneThatIsMistreated(t *testing.T) {
	t.Logf("-seed=%d -soak=%d -chaos.faults=%d -chaos.duration=%s", *seed, *soak, *faultCount, *duration)
	r := newRun(t)
	r.stop = r.start()
	defer r.stop()
	if err := r.quiet(true); err != nil {
		t.Fatal(err)
	}
	err := r.backUp(r.ctx)
	if err == nil {
		err = r.wreak()
	}
	if err == nil {
		err = r.quiet(false)
	}
	if err == nil {
		err = r.audit()
	}
	if err != nil {
		t.Error(err)
	}
	r.report()
	r.stop()
	r.nothingIsLeft()
}

// audit compares the clusters' mirrors with the server, by their own means.
func (r *run) audit() error {
	for _, c := range r.clusters {
		results, err := c.Audit(r.ctx)
		if err != nil {
			return err
		}
		for name, a := range results {
			r.t.Logf("audit of %s: %d objects, %d differences", name, a.Objects, a.Count())
			if a.Count() > 0 {
				r.t.Errorf("%s: %v", name, a.Differences)
			}
		}
	}
	return nil
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
	several    recoveries // at once
	quietTimes int
	moments    int
	backup     *controlplane.Snapshot // what the next rewind goes back to
	takenBack  []int64                // versions, by each rewind

	// When everything was quiet for the first time.
	goroutines, connections int
}

func newRun(t *testing.T) *run {
	t.Helper()
	plane := shared.Plane(t)
	direct := plane.Config()
	r := &run{t: t, ctx: t.Context(), site: &site{plane: plane}, began: time.Now(), kinds: map[string]*recoveries{}}
	r.site.rewind = r.rewind
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
	for _, f := range faults {
		r.kinds[f.name] = &recoveries{}
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
	struck, compared := 0, 0
	for {
		for rest := deck(*faultCount**soak, rng); len(rest) > 0; {
			var burst []fault
			burst, rest = draw(rest, rng)
			struck += len(burst)
			if err := r.strike(struck, burst, rng); err != nil {
				return fmt.Errorf("up to fault %d: %s: %w", struck, listed(burst), err)
			}
			if struck-compared >= 25 || burst[0].with == nothing {
				compared = struck
				if err := r.quiet(true); err != nil {
					return fmt.Errorf("at a quiet point after %d faults, at last %s: %w", struck, listed(burst), err)
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

func listed(burst []fault) string {
	var all []string
	for _, f := range burst {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// strike lets faults strike that overlap, and measures how long it takes until every mirror
// has what is written after them. Sometimes it does not wait, so that the next strike
// before all have recovered from these.
func (r *run) strike(i int, burst []fault, rng *rand.Rand) error {
	if rng.IntN(3) == 0 {
		r.gate.Lock() // slow subscribers stand still meanwhile
		defer r.gate.Unlock()
	}
	errs, lasted := make([]error, len(burst)), make([]time.Duration, len(burst))
	var all sync.WaitGroup
	for i, f := range burst {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		all.Go(func() {
			if i > 0 {
				patience.Linger(r.ctx, between(own, 0, 300))
			}
			began := time.Now()
			errs[i] = f.strike(r.ctx, r.site, own)
			lasted[i] = time.Since(began)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, f := range burst {
		r.kinds[f.name].faults++
		r.kinds[f.name].lasted = append(r.kinds[f.name].lasted, lasted[i])
	}
	of := r.kinds[burst[0].name]
	if len(burst) > 1 {
		of = &r.several
		of.faults++
	}
	if rng.IntN(4) == 0 {
		return nil
	}
	healed := time.Now()
	if err := r.caughtUp(fmt.Sprint(i)); err != nil {
		return err
	}
	of.took = append(of.took, time.Since(healed))
	return r.moment(r.forms[rng.IntN(len(r.forms))])
}

// caughtUp writes a canary for each resource and waits until every mirror has it.
func (r *run) caughtUp(value string) error {
	ctx, cancel := context.WithTimeout(r.ctx, patience.Limit)
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
	if err := r.same(leaveOut, form.equals); err != nil {
		return err
	}
	r.quietTimes++
	var errs []error
	for _, f := range r.forms {
		for _, w := range f.wrong() {
			errs = append(errs, errors.New(w))
		}
	}
	return errors.Join(append(errs, r.noMore())...)
}

// same waits until every form is what a fresh list has, while the writers are paused.
func (r *run) same(leaveOut bool, compare func(form, contents) error) error {
	for _, f := range r.forms {
		if f.slow() && leaveOut {
			continue
		}
		err := patience.For(r.ctx, f.title()+" to equal a fresh list", func() error {
			want, err := f.fresh(r.ctx)
			if err != nil {
				return err
			}
			// The API server itself may write, so that the list is not for ever.
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range 50 {
				if err = compare(f, want); err == nil {
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
	return nil
}

// noMore checks that there are not more goroutines and connections than when it was first
// called, apart from short-lived ones.
func (r *run) noMore() error {
	// A connection has two goroutines here, and two or three in a proxy.
	const few, some = 4, 20
	return patience.For(r.ctx, "goroutines and connections to be as few as before", func() error {
		for _, c := range r.clients {
			c.CloseIdleConnections()
		}
		goroutines, connections := runtime.NumGoroutine(), 0
		for _, p := range r.site.proxies {
			connections += p.Counts().Open
		}
		if r.goroutines == 0 {
			r.goroutines, r.connections = goroutines, connections
		}
		if goroutines > r.goroutines+some || connections > r.connections+few {
			return fmt.Errorf("%d goroutines and %d connections, after %d and %d", goroutines, connections, r.goroutines, r.connections)
		}
		return nil
	})
}

// nothingIsLeft checks that all connections are closed after the forms have ended.
func (r *run) nothingIsLeft() {
	err := patience.For(r.ctx, "connections to be closed", func() error {
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

// closeIdle closes the connections of a configuration's transport, which is shared.
func closeIdle(config *rest.Config) {
	if transport, err := rest.TransportFor(config); err == nil {
		if c, ok := transport.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}
