// Command sharded runs three replicas of one controller, which share the ConfigMaps of a cluster by
// namespace, and prints who reconciles what. It starts the embedded API server, so it needs no
// cluster; with -kubeconfig it runs one replica on a real one.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/shard"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "run one replica on the cluster of this file")
	name := flag.String("name", "", "the replica's name; defaults to the hostname")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := demo
	if *kubeconfig != "" {
		run = func(ctx context.Context, out io.Writer) error {
			return replica(ctx, out, *name, tarn.WithKubeconfig(*kubeconfig))
		}
	}
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// replica runs one replica until the context is done. It hands its share over before it returns.
func replica(ctx context.Context, out io.Writer, name string, opts ...tarn.ConnectOption) error {
	cluster, err := tarn.Connect(append(opts,
		tarn.WithSharding("sharded-example", shard.Options{Member: name}),
		tarn.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		return err
	}
	configMaps, err := tarn.MirrorOf[*corev1.ConfigMap](cluster)
	if err != nil {
		return err
	}
	_, err = tarn.NewController(cluster, "configmaps", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		_, err := fmt.Fprintf(out, "%s reconciles %s\n", name, key)
		return tarn.Result{}, err
	}, tarn.For(configMaps))
	if err != nil {
		return err
	}
	return cluster.Run(ctx)
}

// demo runs three replicas, and writes ConfigMaps. After a minute one replica stops, and the others
// take over what it had.
func demo(ctx context.Context, out io.Writer) error {
	server, err := apiserver.New(apiserver.Options{AnyNamespace: true})
	if err != nil {
		return err
	}
	out = &lines{out: out}
	fmt.Fprintln(out, "a new group begins to work after about 20 seconds")
	errs := make(chan error, 4)
	var serving, running sync.WaitGroup
	defer serving.Wait()
	serve, stopServing := context.WithCancel(context.WithoutCancel(ctx)) // longer than the replicas run
	defer stopServing()
	serving.Go(func() { errs <- server.Run(serve) })
	defer running.Wait()
	start := func(ctx context.Context, name string) {
		running.Go(func() {
			if err := replica(ctx, out, name, tarn.WithConfig(server.MemoryConfig())); err != nil {
				errs <- err
			}
		})
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leaving, leave := context.WithTimeout(ctx, time.Minute)
	defer leave()
	start(ctx, "red")
	start(ctx, "green")
	start(leaving, "blue")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	left := leaving.Done()
	for n := 0; ; n++ {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("shop-", n%20), Name: fmt.Sprint("order-", n)}}
		if _, err := server.Create(configMap); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-left:
			left = nil
			fmt.Fprintln(out, "blue stops; red and green take over")
		case err := <-errs:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// lines is a writer that several goroutines write lines to.
type lines struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(text)
}
