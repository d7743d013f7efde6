package factory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory"
	tarninformers "github.com/tarnproject/tarn/clientgo/factory/informers"
	"github.com/tarnproject/tarn/internal/sample"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// foos is what the server serves.
var foos = object.Resource{
	Group: sample.Version.Group, Version: sample.Version.Version, Resource: "foos", Kind: "Foo", Namespaced: true,
}

// program is the main function of a controller: the lines that a user changes are here.
type program struct {
	kubeInformers func(kubernetes.Interface, *wire.Client) informers.SharedInformerFactory
	fooInformer   func(*sample.SharedInformerFactory, *wire.Client)
	queue         func(workqueue.TypedRateLimiter[cache.ObjectName]) workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

var programs = map[string]program{
	"client-go": {
		kubeInformers: func(c kubernetes.Interface, _ *wire.Client) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactory(c, 30*time.Second)
		},
		fooInformer: func(*sample.SharedInformerFactory, *wire.Client) {},
		queue:       workqueue.NewTypedRateLimitingQueue[cache.ObjectName],
	},
	"tarn by the clientsets": {
		kubeInformers: func(c kubernetes.Interface, _ *wire.Client) informers.SharedInformerFactory {
			return tarninformers.NewSharedInformerFactory(c, 30*time.Second)
		},
		fooInformer: func(f *sample.SharedInformerFactory, _ *wire.Client) {
			f.InformerFor(&sample.Foo{}, factory.Through(&sample.Foo{}, func(c sample.Interface) factory.Typed[*sample.FooList] {
				return c.SamplecontrollerV1alpha1().Foos("")
			}, factory.Options{}))
		},
		queue: workqueue.NewTypedRateLimitingQueue[cache.ObjectName],
	},
	"tarn by the wire": {
		kubeInformers: func(c kubernetes.Interface, w *wire.Client) informers.SharedInformerFactory {
			return tarninformers.NewSharedInformerFactoryWithOptions(c, 30*time.Second, tarninformers.WithClient(w))
		},
		fooInformer: func(f *sample.SharedInformerFactory, w *wire.Client) {
			f.InformerFor(&sample.Foo{}, factory.From[sample.Interface](w, wire.Custom[*sample.Foo](foos), factory.Options{}))
		},
		queue: workqueue.NewTypedRateLimitingQueue[cache.ObjectName],
	},
}

func TestTheSampleControllerRunsUnchanged(t *testing.T) {
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runSample(t, p) })
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func runSample(t *testing.T, p program) {
	server := apiserver.Start(t, apiserver.Options{})
	if err := server.Define(apiserver.Definition{Resource: foos, Status: true}); err != nil {
		t.Fatal(err)
	}
	config := server.Config()
	config.QPS = -1
	kube := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	custom := must[sample.Interface](t)(sample.NewForConfig(config))
	client := must[*wire.Client](t)(wire.New(config, wire.Options{}))

	ctx, cancel := context.WithCancel(t.Context())
	kubeFactory := p.kubeInformers(kube, client)
	sampleFactory := sample.NewSharedInformerFactory(custom, 30*time.Second)
	p.fooInformer(sampleFactory, client)
	queue := p.queue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	c := must[*sample.Controller](t)(sample.NewController(kube, custom, kubeFactory.Apps().V1().Deployments(), sampleFactory.Foos(), queue))
	kubeFactory.StartWithContext(ctx)
	sampleFactory.StartWithContext(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, 2) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		kubeFactory.Shutdown()
		sampleFactory.Shutdown()
	}()

	live(t, server, kube, custom)
	list, err := sampleFactory.Foos().Lister().List(labels.Everything())
	if err != nil || len(list) != 1 {
		t.Fatalf("the lister has %v, %v", list, err)
	}
	foo := must[*sample.Foo](t)(custom.SamplecontrollerV1alpha1().Foos("default").Get(ctx, "web", metav1.GetOptions{}))
	if list[0].ResourceVersion != foo.ResourceVersion || list[0].Status != foo.Status || foo.Status.AvailableReplicas != 2 {
		t.Errorf("the lister has %v with %+v, the server %v with %+v", list[0].ResourceVersion, list[0].Status, foo.ResourceVersion, foo.Status)
	}

	if err := custom.SamplecontrollerV1alpha1().Foos("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-time.After(10 * time.Second)
	synctest.Wait()
	if d, err := kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{}); !errors.IsNotFound(err) {
		t.Errorf("of a Foo that was deleted is left %v, %v", d, err)
	}
}

// live is a Foo's life, and what the controller has to make of it.
func live(t *testing.T, server *apiserver.Server, kube kubernetes.Interface, custom sample.Interface) {
	ctx := t.Context()
	deployments, fooClient := kube.AppsV1().Deployments("default"), custom.SamplecontrollerV1alpha1().Foos("default")
	settle := func() {
		<-time.After(10 * time.Second)
		synctest.Wait()
	}
	deployment := func(when string, replicas int32) *appsv1.Deployment {
		t.Helper()
		settle()
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil || *d.Spec.Replicas != replicas {
			t.Fatalf("%s: the deployment is %v, %v; want %d replicas", when, d, err, replicas)
		}
		return d
	}

	foo := must[*sample.Foo](t)(fooClient.Create(ctx, &sample.Foo{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: sample.FooSpec{DeploymentName: "web", Replicas: new(int32(1))},
	}, metav1.CreateOptions{}))
	d := deployment("created", 1)
	if !metav1.IsControlledBy(d, foo) {
		t.Errorf("the deployment has owners %v", d.OwnerReferences)
	}

	foo.Spec.Replicas = new(int32(2))
	must[*sample.Foo](t)(fooClient.Update(ctx, foo, metav1.UpdateOptions{}))
	d = deployment("scaled", 2)

	server.Cut("")
	d.Status.AvailableReplicas = 2
	must[*appsv1.Deployment](t)(deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}))
	settle()
	foo = must[*sample.Foo](t)(fooClient.Get(ctx, "web", metav1.GetOptions{}))
	if foo.Status.AvailableReplicas != 2 {
		t.Errorf("the status did not come through: %+v; the server has %d watches of foos and %d of deployments",
			foo.Status, server.Watches("foos.samplecontroller.k8s.io"), server.Watches("deployments.apps"))
	}

	if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := deployment("deleted", 2)
	if again.UID == d.UID {
		t.Error("the deployment was not made again")
	}
	again.Status.AvailableReplicas = 2
	must[*appsv1.Deployment](t)(deployments.UpdateStatus(ctx, again, metav1.UpdateOptions{}))
	settle()
	if _, err := deployments.Get(ctx, "other", metav1.GetOptions{}); !errors.IsNotFound(err) {
		t.Errorf("Get of what is not there: %v", err)
	}
}
