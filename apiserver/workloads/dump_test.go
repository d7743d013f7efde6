package workloads_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/workloads"
)

// serviceOf returns a Service for the pods of an app.
func serviceOf(app string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

// The names, nodes and addresses of pods depend on the order of reconciles and on random
// numbers, and a dump does not.
func TestDumpsOfWorkloadsAreEqual(t *testing.T) {
	var dumps [6]string
	for i := range dumps {
		synctest.Test(t, func(t *testing.T) {
			server := apiserver.Start(t, apiserver.Options{Seed: uint64(1 + i/2), CollectGarbage: true})
			workloads.Start(t, server, workloads.Options{Nodes: 3})
			host := newDeployment("host", 2)
			host.Spec.Template.Spec.HostNetwork = true
			job := newJob("", 2, 2)
			job.GenerateName = "sum-"
			agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}, Spec: appsv1.DaemonSetSpec{
				Selector: selector("agent"), Template: template("agent", "v1"),
			}}
			objs := []runtime.Object{
				host, serviceOf("host"), newDeployment("web", 4), serviceOf("web"), newDeployment("other", 2), newStatefulSet("db", 3), agent, job,
			}
			for _, obj := range objs {
				if _, err := server.Create(obj); err != nil {
					t.Fatal(err)
				}
			}
			// The hash of a template with a generated name differs, too.
			config, err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "config-"}})
			if err != nil {
				t.Fatal(err)
			}
			named := newDeployment("named", 1)
			named.Spec.Template.Annotations = map[string]string{"config": config.(*corev1.ConfigMap).Name}
			if _, err := server.Create(named); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute)
			dumps[i] = string(server.Dump())
		})
		if d := firstDifference(dumps[0], dumps[i]); d != "" {
			t.Fatalf("dump %d: %s", i, d)
		}
	}
	for _, want := range []string{
		"nodeName: <node>\n", "hostIP: <ip of the node>\n", "podIP: <ip of Pod default/web-<hash>-<generated>>\n", "podIP: <ip of Pod default/db-0>\n",
		"containerID: tarn://<uid of Pod default/sum-<generated>-<generated>>/main/0\n", "nodeName: node-2\n", "name: named-<hash>\n",
		"- addresses:\n  - <ip of Pod default/host-<hash>-<generated>>\n",
	} {
		if !strings.Contains(dumps[0], want) {
			t.Errorf("no %q in\n%s", want, dumps[0])
		}
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			from := max(0, i-20)
			return strings.Join(as[from:i+1], "\n") + "\nand\n" + strings.Join(bs[from:i+1], "\n")
		}
	}
	if len(as) != len(bs) {
		return "one is longer"
	}
	return ""
}

// SameState works for a controller that creates Deployments.
func TestExploreComparesTheStateOfWorkloads(t *testing.T) {
	opts := apiserver.ExploreOptions{Server: apiserver.Options{CollectGarbage: true}, SameState: true, StaleCache: 2 * time.Second}
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		workloads.Start(t, server, workloads.Options{Nodes: 2})
		server.Supervise(t, func(ctx context.Context, cfg *rest.Config) error {
			client, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return err
			}
			for _, name := range []string{"a", "b", "c"} {
				_, err := client.AppsV1().Deployments("default").Create(ctx, newDeployment(name, 3), metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					return err
				}
			}
			<-ctx.Done()
			return nil
		})
		<-time.After(2 * time.Minute)
	})
}
