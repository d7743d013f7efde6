package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// fakeDNS remembers the hosts, and fails while broken is set.
type fakeDNS struct {
	mu     sync.Mutex // guards all below
	hosts  map[string]bool
	broken bool
}

func (d *fakeDNS) Set(_ context.Context, host string, present bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken {
		return errors.New("the DNS provider does not answer")
	}
	if d.hosts[host] = present; !present {
		delete(d.hosts, host)
	}
	return nil
}

func (d *fakeDNS) has(host string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts[host]
}

func (d *fakeDNS) setBroken(broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

// operator is the controller and the API server that it works on, in virtual time.
type operator struct {
	t       *testing.T
	srv     *apiserver.Server
	dns     *fakeDNS
	cluster *tarn.Cluster
	user    *wire.Client
}

func test(t *testing.T, body func(o *operator), opts ...tarn.ConnectOption) {
	testAs(t, apiserver.Options{AnyNamespace: true, Seed: 1}, (*apiserver.Server).MemoryConfig, body, opts...)
}

// testAs is test with an operator that connects with another config.
func testAs(t *testing.T, options apiserver.Options, connect func(*apiserver.Server) *rest.Config, body func(o *operator), opts ...tarn.ConnectOption) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.Start(t, options)
		crd := &unstructured.Unstructured{}
		text, err := os.ReadFile("config/crd.yaml")
		if err == nil {
			err = yaml.Unmarshal(text, &crd.Object)
		}
		if err == nil {
			_, err = srv.Create(crd)
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &operator{t: t, srv: srv, dns: &fakeDNS{hosts: map[string]bool{}}}
		o.cluster, err = tarn.Connect(append(opts, tarn.WithConfig(connect(srv)), tarn.WithLeaderElection("website"),
			tarn.WithLogger(slog.New(slog.DiscardHandler)))...)
		if err == nil {
			o.user, err = wire.New(srv.MemoryConfig(), wire.Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
		defer o.user.CloseIdleConnections()
		if err := addController(o.cluster, o.dns); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- o.cluster.Run(ctx) }()
		body(o)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// eventually advances virtual time until the condition holds, at most for ten minutes.
func (o *operator) eventually(what string, holds func() bool) {
	o.t.Helper()
	for range 600 {
		if synctest.Wait(); holds() {
			return
		}
		<-time.After(time.Second)
	}
	o.t.Fatalf("after ten minutes: not %s", what)
}

func get[T any](o *operator) (obj T, err error) {
	return wire.For(o.user, wire.MustOf[T]()).Get(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"}, wire.GetOptions{})
}

func (o *operator) createSite() {
	o.t.Helper()
	site := &v1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1.WebsiteSpec{Image: "web:1", Host: "web.example.com"}}
	if _, err := wire.For(o.user, wire.MustOf[*v1.Website]()).Create(o.t.Context(), site, wire.WriteOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operator) patchSite(patch any) {
	o.t.Helper()
	sites := wire.For(o.user, wire.MustOf[*v1.Website]())
	if _, err := sites.Patch(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"}, wire.MergePatchOf(patch), wire.WriteOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operator) deployed(image string) bool {
	d, err := get[*appsv1.Deployment](o)
	return err == nil && d.Spec.Template.Spec.Containers[0].Image == image
}

func (o *operator) ready() bool {
	site, err := get[*v1.Website](o)
	return err == nil && meta.IsStatusConditionTrue(site.Status.Conditions, "Ready") && site.Status.ObservedGeneration == site.Generation
}

// kubelet reports that the deployment's pods are ready.
func (o *operator) kubelet() {
	o.t.Helper()
	deployments := wire.For(o.user, wire.MustOf[*appsv1.Deployment]())
	if _, err := deployments.Patch(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"},
		wire.MergePatchOf(map[string]any{"status": map[string]any{"readyReplicas": 1}}), wire.WriteOptions{}, "status"); err != nil {
		o.t.Fatal(err)
	}
}

func TestAWebsiteIsDeployedUpdatedAndRemoved(t *testing.T) {
	test(t, func(o *operator) {
		o.createSite()
		o.eventually("deployed", func() bool { return o.deployed("web:1") && o.dns.has("web.example.com") })
		if s, err := get[*corev1.Service](o); err != nil || s.Spec.Ports[0].Port != 80 {
			o.t.Errorf("service: %v, %v", s, err)
		}
		o.kubelet()
		o.eventually("ready", o.ready)
		o.patchSite(map[string]any{"spec": map[string]any{"image": "web:2"}})
		o.eventually("updated", func() bool { return o.deployed("web:2") && o.ready() })

		d, _ := get[*appsv1.Deployment](o)
		if err := o.srv.Delete(d); err != nil { // a user's mistake
			o.t.Fatal(err)
		}
		o.eventually("deployed again", func() bool { return o.deployed("web:2") })

		sites := wire.For(o.user, wire.MustOf[*v1.Website]())
		if err := sites.Delete(o.t.Context(), tarn.Key{Namespace: "shop", Name: "web"}, wire.DeleteOptions{}); err != nil {
			o.t.Fatal(err)
		}
		o.eventually("removed", func() bool {
			_, err := get[*v1.Website](o)
			return apierrors.IsNotFound(err) && !o.dns.has("web.example.com")
		})
	})
}

func TestAFailingDNSProviderIsReportedAndRetried(t *testing.T) {
	test(t, func(o *operator) {
		o.dns.setBroken(true)
		o.createSite()
		o.eventually("reported", func() bool {
			events, _, err := stream.List(o.t.Context(), wire.For(o.user, wire.MustOf[*eventsv1.Event]()), object.ListOptions{})
			return err == nil && slices.ContainsFunc(events, func(e *eventsv1.Event) bool {
				return e.Reason == "DNSFailed" && e.Type == corev1.EventTypeWarning && e.Regarding.Kind == "Website" && e.Regarding.Name == "web"
			})
		})
		if o.deployed("web:1") {
			o.t.Error("deployed without a DNS record")
		}
		o.dns.setBroken(false)
		o.eventually("deployed", func() bool { return o.deployed("web:1") })
	})
}

// rbac.yaml is what the program prints: go run ./examples/website rbac
func TestTheRolesAreThoseThatTheProgramNeeds(t *testing.T) {
	cluster, err := tarn.Connect(tarn.WithConfig(&rest.Config{Host: "https://127.0.0.1:1"}), tarn.WithFieldManager("website"), tarn.WithNamespace("website-system"), tarn.WithLeaderElection("website"))
	if err != nil {
		t.Fatal(err)
	}
	if err := addController(cluster, &fakeDNS{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("config/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := cluster.RBAC().String(); string(text) != want {
		t.Errorf("config/rbac.yaml is not what is needed:\n%s", want)
	}
}

// The same with an API server that fails: a random fault hits every third request.
func TestAFaultyServerOnlyDelays(t *testing.T) {
	for seed := range uint64(5) {
		test(t, func(o *operator) {
			o.createSite()
			o.srv.Random(seed, 0.3)
			o.eventually("deployed", func() bool { return o.dns.has("web.example.com") })
			<-time.After(time.Minute)
			o.srv.Random(seed, 0)
			o.eventually("deployed", func() bool { return o.deployed("web:1") })
			o.kubelet()
			o.eventually("ready", o.ready)
		})
	}
}
