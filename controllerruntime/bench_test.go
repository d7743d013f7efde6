package controllerruntime_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
)

// The clients that read their own writes, and those that do not, on either cache: the processor time of an event that
// another program causes, and how long a read after a write takes. The server is in the process and has its share of
// each event.
func BenchmarkReadYourWrites(b *testing.B) {
	caches := map[string]cache.NewCacheFunc{"cache.New": cache.New, "NewCache": controllerruntime.NewCache}
	for _, name := range []string{"cache.New", "NewCache"} {
		for _, consistent := range []string{"stale", "EnableReadYourWritesConsistency", "NewClient"} {
			if name == "cache.New" && consistent == "NewClient" {
				continue
			}
			start := func(b *testing.B) (*apiserver.Server, client.Client) {
				server := apiserver.Start(b, apiserver.Options{})
				c, err := caches[name](server.Config(), cache.Options{})
				if err != nil {
					b.Fatal(err)
				}
				ctx, stop := context.WithCancel(context.Background())
				ended := goes(func() error { return c.Start(ctx) })
				b.Cleanup(func() {
					stop()
					<-ended
				})
				c.WaitForCacheSync(ctx)
				options := client.Options{Cache: &client.CacheOptions{Reader: c}}
				newClient := client.New
				switch consistent {
				case "NewClient":
					newClient = controllerruntime.NewClient
				case "EnableReadYourWritesConsistency":
					enable := reflect.ValueOf(options.Cache).Elem().FieldByName(consistent)
					if !enable.IsValid() {
						b.Skip("this version of controller-runtime has no such consistency")
					}
					enable.Set(reflect.ValueOf(new(true)))
				}
				cl, err := newClient(server.Config(), options)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
					b.Fatal(err)
				}
				if _, err := server.Create(configMap("m", "0")); err != nil {
					b.Fatal(err)
				}
				until(b, cl, "0")
				if err := cl.Update(b.Context(), configMap("m", "1")); err != nil { // the first write begins the tracking
					b.Fatal(err)
				}
				until(b, cl, "1")
				return server, cl
			}
			b.Run(name+"/"+consistent+"/event", func(b *testing.B) {
				server, cl := start(b)
				began := processTime()
				for i := range b.N {
					if _, err := server.Update(configMap("m", fmt.Sprint("e", i))); err != nil {
						b.Fatal(err)
					}
				}
				until(b, cl, fmt.Sprint("e", b.N-1))
				b.ReportMetric(float64(processTime()-began)/float64(b.N), "cpu-ns/op")
			})
			b.Run(name+"/"+consistent+"/read", func(b *testing.B) {
				_, cl := start(b)
				var took []time.Duration
				stale := 0
				for i := range b.N {
					value := fmt.Sprint("r", i)
					if err := cl.Update(b.Context(), configMap("m", value)); err != nil {
						b.Fatal(err)
					}
					began := time.Now()
					if !reads(b, cl, value) {
						stale++
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "p50-ns/read")
				b.ReportMetric(100*float64(stale)/float64(b.N), "%stale")
			})
		}
	}
}

// reads reports whether a read has a value.
func reads(b *testing.B, cl client.Client, value string) bool {
	var got corev1.ConfigMap
	if err := cl.Get(b.Context(), client.ObjectKey{Namespace: "shop", Name: "m"}, &got); err != nil {
		b.Fatal(err)
	}
	return got.Data["value"] == value
}

func until(b *testing.B, cl client.Client, value string) {
	b.Helper()
	for !reads(b, cl, value) {
		<-time.After(time.Millisecond)
	}
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
