package controllerruntime_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// newClient returns the client of a cache.
func newClient(t *testing.T, server *apiserver.Server, c cache.Cache) client.Client {
	t.Helper()
	cl, err := controllerruntime.NewClient(server.Config(), client.Options{Cache: &client.CacheOptions{Reader: c}})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"value": value}}, Data: map[string]string{"value": value}}
}

// Random writes of all kinds, each followed by reads, on a cache that is two seconds behind: no read is older
// than what the client wrote.
func TestC06_TheClientReadsItsOwnWrites(t *testing.T) {
	for seed := range uint64(8) {
		bubble(t, func(t *testing.T, server *apiserver.Server) {
			namespaces(t, server, "shop")
			if _, err := server.Inject(apiserver.Fault{Kind: apiserver.StaleCache, Resource: "configmaps", Wait: 2 * time.Second, Optional: true}); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(seed, 1))
			c := start(t, server, controllerruntime.Options{}, cache.Options{})
			if r.IntN(2) == 0 { // otherwise the first read makes the mirror, after the first write
				if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
					t.Fatal(err)
				}
			}
			cl, want := newClient(t, server, c), map[string]string{}
			for step := range 30 {
				name, value := fmt.Sprint("m", r.IntN(3)), fmt.Sprint("v", step)
				_, exists := want[name]
				var err error
				switch op := r.IntN(6); {
				case !exists && op < 4:
					err, want[name] = cl.Create(t.Context(), configMap(name, value)), value
				case op == 0:
					err = cl.Delete(t.Context(), configMap(name, ""))
					if !exists {
						err = client.IgnoreNotFound(err)
					}
					delete(want, name)
				case op == 1 && exists:
					err, want[name] = cl.Update(t.Context(), configMap(name, value)), value
				case op == 2 && exists:
					old := configMap(name, want[name])
					err, want[name] = cl.Patch(t.Context(), configMap(name, value), client.MergeFrom(old)), value
				default:
					apply := corev1ac.ConfigMap(name, "shop").WithLabels(map[string]string{"value": value}).WithData(map[string]string{"value": value})
					err, want[name] = cl.Apply(t.Context(), apply, client.FieldOwner("test"), client.ForceOwnership), value
				}
				if err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				if r.IntN(3) == 0 {
					continue
				}
				check(t, cl, name, want)
			}
		})
	}
}

func check(t *testing.T, cl client.Client, name string, want map[string]string) {
	t.Helper()
	var got corev1.ConfigMap
	err := cl.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &got)
	if _, exists := want[name]; !exists && !apierrors.IsNotFound(err) {
		t.Fatalf("a deleted object is read: %q, %v", got.Data, err)
	} else if exists && (err != nil || got.Data["value"] != want[name]) {
		t.Fatalf("read %q, %v; wrote %q", got.Data["value"], err, want[name])
	}
	var list corev1.ConfigMapList
	if err := cl.List(t.Context(), &list, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range list.Items {
		if _, ours := want[m.Name]; ours || m.Name == name {
			found[m.Name] = m.Data["value"]
		}
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Fatalf("listed %v, wrote %v", found, want)
	}
}

// lateOption is an option of a read. The cache receives older states while it reads the options.
type lateOption struct{ applied int }

func (o *lateOption) apply() {
	if o.applied++; o.applied == 2 { // the first time, the client reads them
		<-time.After(1050 * time.Millisecond)
	}
}

func (o *lateOption) ApplyToGet(*client.GetOptions)   { o.apply() }
func (o *lateOption) ApplyToList(*client.ListOptions) { o.apply() }

// The client deletes an object that the cache has not shown yet. It appears while a read is in progress.
func TestC06_AReadIsOfTheStateThatWasChecked(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		if _, err := server.Inject(apiserver.Fault{Kind: apiserver.StaleCache, Resource: "configmaps", Wait: 2 * time.Second}); err != nil {
			t.Fatal(err)
		}
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		cl := newClient(t, server, c)
		for name, read := range map[string]func(name string) error{
			"get": func(name string) error {
				var m corev1.ConfigMap
				if err := cl.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &m, &lateOption{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("it has %q, %v", m.UID, err)
				}
				return nil
			},
			"list": func(string) error {
				var list corev1.ConfigMapList
				if err := cl.List(t.Context(), &list, client.InNamespace("shop"), &lateOption{}); err != nil || len(list.Items) == 0 {
					return err
				}
				return fmt.Errorf("it has %d objects", len(list.Items))
			},
		} {
			if _, err := server.Create(configMap(name, "")); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
			if err := cl.Delete(t.Context(), configMap(name, "")); err != nil {
				t.Fatal(err)
			}
			<-time.After(900 * time.Millisecond)
			if err := read(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			<-time.After(time.Minute)
		}
	})
}

// R02: a write that the cache's selector hides does not block readers: they get the cause.
func TestAReadOfAHiddenObjectSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		selector, err := labels.Parse("value=seen")
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, server, controllerruntime.Options{}, cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: selector}}})
		if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		cl := newClient(t, server, c)
		if err := cl.Create(t.Context(), configMap("hidden", "x")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = cl.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "hidden"}, &corev1.ConfigMap{})
		if took := time.Since(began); took > time.Second || !errors.Is(err, informer.ErrNotCovered) && !apierrors.IsNotFound(err) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// controller-runtime's own consistency works on this cache.
func TestReadYourWritesOfControllerRuntimeWorksOnTheCache(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		options := &client.CacheOptions{Reader: c}
		enable := reflect.ValueOf(options).Elem().FieldByName("EnableReadYourWritesConsistency")
		if !enable.IsValid() {
			t.Skip("this version of controller-runtime has no such consistency") // v0.25 has
		}
		enable.Set(reflect.ValueOf(new(true)))
		cl, err := client.New(server.Config(), client.Options{Cache: options})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for i := range 5 {
			value := fmt.Sprint("v", i)
			if i == 0 {
				err = cl.Create(t.Context(), configMap("m", value))
			} else {
				err = cl.Update(t.Context(), configMap("m", value))
			}
			if err != nil {
				t.Fatal(err)
			}
			want["m"] = value
			check(t, cl, "m", want)
		}
	})
}

// Dropped fields are not held; the server's objects keep them.
func TestDroppedFieldsAreNotRead(t *testing.T) {
	for _, form := range []controllerruntime.Form{controllerruntime.Compact, controllerruntime.Decoded} {
		bubble(t, func(t *testing.T, server *apiserver.Server) {
			namespaces(t, server, "shop")
			create(t, server, configMap("m", "x"))
			options := controllerruntime.Options{ByObject: map[client.Object]controllerruntime.Kind{
				&corev1.ConfigMap{}: {Form: form, Drop: []object.FieldPath{{"metadata", "labels"}}},
			}}
			c := start(t, server, options, cache.Options{})
			var got corev1.ConfigMap
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "m"}, &got); err != nil || got.Labels != nil || got.Data["value"] != "x" {
				t.Errorf("form %d: read %v, %v", form, got, err)
			}
		})
	}
}

// A cache that starts while its server is down syncs when it returns.
func TestTheCacheSyncsWhenTheServerReturns(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		create(t, server, configMap("m", "x"))
		remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "configmaps"})
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		inf, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if inf.HasSynced() {
			t.Error("it has synced without a server")
		}
		remove()
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "m"}, &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
	})
}
