package adapters

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tarnproject/tarn/clientgo/factory"
	tarninformers "github.com/tarnproject/tarn/clientgo/factory/informers"
	"github.com/tarnproject/tarn/e2e/sample"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// resync is the period of the sample's informers. It is so long that nothing in a test is
// put right by it.
const resync = time.Hour

// lines are those of the sample's main function that a user changes.
type lines struct {
	kube func(c kubernetes.Interface, w *wire.Client, namespace string) informers.SharedInformerFactory
	foos func(f *sample.SharedInformerFactory, w *wire.Client, namespace string)

	// What has to be found under the program afterwards.
	informers string // package
	wired     bool   // informers read through wire
}

// The packages that informers are from.
const (
	clientGoCache = "k8s.io/client-go/tools/cache"
	tarn          = "github.com/tarnproject/tarn/clientgo"
)

var asItIs = lines{
	kube: func(c kubernetes.Interface, _ *wire.Client, namespace string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(c, resync, informers.WithNamespace(namespace))
	},
	foos:      func(*sample.SharedInformerFactory, *wire.Client, string) {},
	informers: clientGoCache,
}

var byClientsets = lines{
	kube: func(c kubernetes.Interface, _ *wire.Client, namespace string) informers.SharedInformerFactory {
		return tarninformers.NewSharedInformerFactoryWithOptions(c, resync, tarninformers.WithNamespace(namespace))
	},
	foos: func(f *sample.SharedInformerFactory, _ *wire.Client, namespace string) {
		f.InformerFor(&sample.Foo{}, factory.Through(&sample.Foo{}, func(c sample.Interface) factory.Typed[*sample.FooList] {
			return c.SamplecontrollerV1alpha1().Foos(namespace)
		}, factory.Options{}))
	},
	informers: tarn,
}

var byWire = lines{
	kube: func(c kubernetes.Interface, w *wire.Client, namespace string) informers.SharedInformerFactory {
		return tarninformers.NewSharedInformerFactoryWithOptions(c, resync, tarninformers.WithNamespace(namespace), tarninformers.WithClient(w))
	},
	foos: func(f *sample.SharedInformerFactory, w *wire.Client, namespace string) {
		foos := wire.Custom[*sample.Foo](object.Resource{
			Group: sample.Version.Group, Version: sample.Version.Version, Resource: "foos", Kind: "Foo", Namespaced: true,
		})
		f.InformerFor(&sample.Foo{}, factory.From[sample.Interface](w, foos, factory.Options{Namespace: namespace}))
	},
	informers: tarn, wired: true,
}

// sampleProgram is the sample's main function.
type sampleProgram struct {
	lines
	namespace           string
	kubeFactory         informers.SharedInformerFactory
	sampleFactory       *sample.SharedInformerFactory
	foos                *sample.FooInformer
	deployments         appsinformers.DeploymentInformer
	work                workqueue.TypedRateLimitingInterface[cache.ObjectName]
	controller          *sample.Controller
	byClientset, byWire *atomic.Int64 // reads
}

// newSample returns how to make the program with some lines in it.
func newSample(l lines) func(*testing.T, server, string) program {
	return func(t *testing.T, s server, namespace string) program {
		p := &sampleProgram{lines: l, namespace: namespace}
		config, n := reads(s.config)
		p.byClientset = n
		kube := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
		custom := must[sample.Interface](t)(sample.NewForConfig(config))
		config, p.byWire = reads(s.config)
		client := must[*wire.Client](t)(wire.New(config, wire.Options{}))
		t.Cleanup(client.CloseIdleConnections)

		p.kubeFactory = l.kube(kube, client, namespace)
		p.sampleFactory = sample.NewSharedInformerFactory(custom, resync, sample.WithNamespace(namespace))
		l.foos(p.sampleFactory, client, namespace)
		p.foos, p.deployments = p.sampleFactory.Foos(), p.kubeFactory.Apps().V1().Deployments()
		p.work = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
		p.controller = must[*sample.Controller](t)(sample.NewController(kube, custom, p.deployments, p.foos, p.work))
		return p
	}
}

func (p *sampleProgram) run(ctx context.Context) error {
	p.kubeFactory.StartWithContext(ctx)
	p.sampleFactory.StartWithContext(ctx)
	defer p.kubeFactory.Shutdown()
	defer p.sampleFactory.Shutdown()
	return p.controller.Run(ctx, 2)
}

func (p *sampleProgram) listen(_ context.Context, h cache.ResourceEventHandler) error {
	_, err := p.foos.Informer().AddEventHandler(h)
	return err
}

func (p *sampleProgram) cached(context.Context) (versions, error) {
	foos, err := p.foos.Lister().Foos(p.namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	deployments, err := p.deployments.Lister().Deployments(p.namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	held := versions{}
	for _, foo := range foos {
		held.add("Foo", foo)
	}
	for _, d := range deployments {
		held.add("Deployment", d)
	}
	return held, nil
}

func (p *sampleProgram) check(t *testing.T) {
	t.Helper()
	// A generated informer of a built-in kind is wrapped once more by client-go, so
	// only the indexer shows its package.
	for kind, informer := range map[string]cache.SharedIndexInformer{"Foos": p.foos.Informer(), "Deployments": p.deployments.Informer()} {
		if got := packageOf(informer.GetIndexer()); got != p.informers {
			t.Errorf("the cache of %s is of %s; want %s", kind, got, p.informers)
		}
	}
	clientset, wire := p.byClientset.Load(), p.byWire.Load()
	if p.wired && (clientset != 0 || wire == 0) || !p.wired && (clientset == 0 || wire != 0) {
		t.Errorf("%d reads by the clientsets, %d by the wire", clientset, wire)
	}
}

// packageOf returns the package that the implementation of an interface is from.
func packageOf(v any) string {
	typ := reflect.TypeOf(v)
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ.PkgPath()
}
