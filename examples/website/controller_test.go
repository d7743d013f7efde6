package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/leader"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
	"github.com/tarnproject/tarn/tarntest"
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
	if d.hosts == nil {
		d.hosts = map[string]bool{}
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

var (
	sampleKey   = tarn.Key{Namespace: "default", Name: "shop"} // the site in config/sample.yaml
	childrenKey = tarn.Key{Namespace: "default", Name: "shop"} // its Deployment and Service
)

const host = "shop.example.com"

// operator is the program, on a server with everything in config.
type operator struct {
	*tarntest.Env
	testing.TB
	dns *fakeDNS
}

func start(t testing.TB, dns *fakeDNS, opts tarntest.Options) *operator {
	opts.Limit = 10 * time.Minute
	opts.Prepare = func(server *apiserver.Server) error { return server.Load(os.DirFS("config")) }
	opts.Controllers = func(cluster *tarn.Cluster) error { return addController(cluster, dns) }
	opts.Connect = append(opts.Connect, tarn.WithNamespace("website-system"), tarn.WithLeaderElection("website", leader.Options{}))
	return &operator{tarntest.Start(t, opts), t, dns}
}

func get[T tarn.Object](o *operator, key tarn.Key) T {
	o.Helper()
	obj, err := tarntest.Get[T](o.Env, key)
	if err != nil {
		o.Fatal(err)
	}
	return obj
}

// update changes an object as a user or another controller does.
func update[T tarn.Object](o *operator, key tarn.Key, change func(obj T)) {
	o.Helper()
	obj := get[T](o, key)
	change(obj)
	if _, err := o.Server.Update(obj); err != nil {
		o.Fatal(err)
	}
}

func (o *operator) delete(obj runtime.Object) {
	o.Helper()
	if err := o.Server.Delete(obj); err != nil {
		o.Fatal(err)
	}
}

func (o *operator) setImage(image string) {
	o.Helper()
	update(o, sampleKey, func(site *v1.Website) { site.Spec.Image = image })
}

// kubelet reports that the deployment's pods are ready.
func (o *operator) kubelet() {
	o.Helper()
	update(o, childrenKey, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 2 })
}

func (o *operator) deployed(image string) func() bool {
	return func() bool {
		d, err := tarntest.Get[*appsv1.Deployment](o.Env, childrenKey)
		return err == nil && d.Spec.Template.Spec.Containers[0].Image == image && o.dns.has(host)
	}
}

func (o *operator) ready() bool {
	site := get[*v1.Website](o, sampleKey)
	return meta.IsStatusConditionTrue(site.Status.Conditions, "Ready") && site.Status.ObservedGeneration == site.Generation
}

func (o *operator) removed() bool {
	_, err := tarntest.Get[*v1.Website](o.Env, sampleKey)
	return apierrors.IsNotFound(err) && !o.dns.has(host)
}

func TestAWebsiteIsDeployedUpdatedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, &fakeDNS{}, tarntest.Options{})
		image := get[*v1.Website](o, sampleKey).Spec.Image
		o.Eventually("deployed", o.deployed(image))
		if s := get[*corev1.Service](o, childrenKey); s.Spec.Ports[0].Port != 80 {
			t.Errorf("service: %v", s)
		}
		o.kubelet()
		o.Eventually("ready", o.ready)
		o.setImage("web:2")
		o.Eventually("updated", o.deployed("web:2"))
		o.delete(get[*appsv1.Deployment](o, childrenKey)) // a user's mistake
		o.Eventually("deployed again", o.deployed("web:2"))
		o.delete(get[*v1.Website](o, sampleKey))
		o.Eventually("removed", o.removed)
	})
}

func TestAFailingDNSProviderIsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, &fakeDNS{broken: true}, tarntest.Options{})
		o.Eventually("reported", func() bool { return strings.Contains(string(o.Server.Dump("events")), "reason: DNSFailed\n") })
		if _, err := tarntest.Get[*appsv1.Deployment](o.Env, childrenKey); err == nil {
			t.Error("deployed without a DNS record")
		}
		o.dns.setBroken(false)
		o.Eventually("deployed", o.deployed(get[*v1.Website](o, sampleKey).Spec.Image))
	})
}

// rbac.yaml is what the program prints: go run ./examples/website rbac
func TestTheRolesAreThoseThatTheProgramNeeds(t *testing.T) {
	cluster, err := tarn.Connect(tarn.WithConfig(&rest.Config{Host: "https://127.0.0.1:1"}), tarn.WithFieldManager("website"), tarn.WithNamespace("website-system"), tarn.WithLeaderElection("website", leader.Options{}))
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
		synctest.Test(t, func(t *testing.T) {
			o := start(t, &fakeDNS{}, tarntest.Options{})
			o.Server.Random(seed, 0.3)
			o.Eventually("registered", func() bool { return o.dns.has(host) })
			<-time.After(time.Minute) // virtual
			o.Server.Clear()
			o.Eventually("deployed", o.deployed(get[*v1.Website](o, sampleKey).Spec.Image))
			o.kubelet()
			o.Eventually("ready", o.ready)
		})
	}
}
