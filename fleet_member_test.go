package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/object"
)

func TestAClusterThatFailsEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, cause := tarn.NewFleet(), errors.New("broken")
		broken := controller.Source[object.Key]{Name: "broken", Run: func(ctx context.Context, in *controller.Intake[object.Key]) error {
			in.Add(key("", "one"))
			return cause
		}}
		seen := make(chan string, 10)
		must(tarn.NewFleetController(fleet, "c", func(m *tarn.Member) error {
			source := broken
			if m.Name == "good" {
				source = controller.Every(time.Minute, func(add func(object.Key)) { add(key("", "tick")) })
			}
			return m.Reconcile(func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
				seen <- m.Name + ":" + key.Name
				return tarn.Result{}, nil
			}, tarn.From(source))
		}))
		srv := apiserver.Start(t, apiserver.Options{})
		for _, name := range []string{"good", "bad"} {
			if err := fleet.Add(name, connect(t, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(quiet))); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- fleet.Run(ctx) }()
		for name := range seen {
			if name == "good:tick" {
				break
			}
		}
		st := fleet.Status().Clusters
		if st[0].Name != "bad" || !errors.Is(st[0].Err, cause) || st[1].Err != nil || !strings.Contains(fleet.Status().String(), "bad: failed") {
			t.Errorf("status is %v", fleet.Status())
		}
		if err := fleet.Remove(ctx, "bad"); !errors.Is(err, cause) {
			t.Errorf("Remove of a failed cluster returned %v", err)
		}
		if n := len(fleet.Status().Clusters); n != 1 {
			t.Errorf("%d clusters after Remove", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Each cluster has its own lease.
func TestAClusterOfAFleetIsReconciledByItsLeader(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		lead := func(id string) tarn.ConnectOption {
			return tarn.WithLeaderElection("copy", leader.Options{Identity: id})
		}
		held := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		must(held.Create(pod("shop", "p0", "")))
		other := connect(t, lead("other"), tarn.WithConfig(held.MemoryConfig()), tarn.WithLogger(quiet))
		ctx, resign := context.WithCancel(t.Context())
		resigned := make(chan error, 1)
		go func() { resigned <- other.Run(ctx) }()
		<-time.After(time.Minute)

		f.connect("held", held, lead("fleet"))
		f.add("free", 1, lead("fleet"))
		<-time.After(time.Minute)
		f.want("free:shop/p0")
		resign()
		if err := <-resigned; err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute)
		f.want("held:shop/p0")
	})
}

// The watch of config maps in eu stalls, so the cache lacks the config map that the reconcile created.
func TestReadYourWritesHoldsBackKeysOfOneClusterOnly(t *testing.T) {
	withFleet(t, nil, func(t *testing.T, f *testFleet) {
		eu, us := f.add("eu", 0), f.add("us", 0)
		synctest.Wait()
		eu.Cut("configmaps")
		must(eu.Inject(apiserver.Fault{Kind: apiserver.Stall, Resource: "configmaps", Verb: "watch"}))
		<-time.After(time.Minute)
		for _, srv := range []*apiserver.Server{eu, us} {
			must(srv.Create(pod("shop", "web", "")))
		}
		must(eu.Create(pod("shop", "idle", "")))
		f.want("eu:shop/idle", "eu:shop/web", "us:shop/web")
		for _, srv := range []*apiserver.Server{eu, us} {
			must(srv.Update(pod("shop", "web", "node-7")))
		}
		f.want("us:shop/web")
		if held := f.ctl.Status().HeldKeys; len(held) != 1 || fmt.Sprint(held[0].Key) != "eu:shop/web" {
			t.Errorf("held keys are %v, want eu:shop/web", held)
		}
		removed := f.weak("eu")
		f.remove("eu")
		if held := f.ctl.Status().HeldKeys; len(held) != 0 || len(f.exists) != 0 {
			t.Errorf("after eu was removed: held keys %v; config maps that existed: %v", held, f.exists)
		}
		<-time.After(time.Minute) // also the server's side of its connections ends
		if inMemory(removed) > 0 {
			t.Error("the controller keeps the cache of a removed cluster because of a write that it lacks")
		}
	})
}
