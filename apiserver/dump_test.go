package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// sameDumps returns the dump of servers with different seeds, and fails the test if they differ.
func sameDumps(t *testing.T, test func(s *apiserver.Server)) string {
	t.Helper()
	var dumps [5]string
	for i := range dumps {
		s := apiserver.Start(t, apiserver.Options{Seed: uint64(i + 1)})
		test(s)
		if dumps[i] = string(s.Dump()); dumps[i] != dumps[0] {
			t.Fatalf("%s\nand\n%s", dumps[0], dumps[i])
		}
	}
	return dumps[0]
}

func dataMap(namespace, name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{}}
	if base, generated := strings.CutSuffix(name, "*"); generated {
		c.Name, c.GenerateName = "", base
	}
	for i := 0; i < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}

func TestDumpReplacesWhatStringsContain(t *testing.T) {
	dump := sameDumps(t, func(s *apiserver.Server) {
		create := func(c *corev1.ConfigMap) *corev1.ConfigMap { return must(s.Create(c)).(*corev1.ConfigMap) }
		ns := must(s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}})).(*corev1.Namespace).Name
		parent := create(dataMap(ns, "p-*"))
		child := create(dataMap(ns, parent.Name+"-*")) // as the pod of a Job
		long := create(dataMap(ns, strings.Repeat("l", 60)+"*"))
		deleted := create(dataMap(ns, "deleted-*"))
		if err := s.Delete(deleted); err != nil {
			t.Fatal(err)
		}
		create(dataMap(ns, parent.Name+"-child", "parent", ns+"/"+parent.Name, "last", "made "+deleted.Name+" "+string(deleted.UID),
			"container", "tarn://"+string(parent.UID)+"/main/0", "message", "since 2026-01-02T00:00:00Z", "long", long.Name+".", "child", child.Name))
		fixed := dataMap(ns, "web-0", "part", "web-01")
		fixed.GenerateName = "web-"
		create(fixed)
		a, b := create(dataMap(ns, "q-*")), create(dataMap(ns, "q-*"))
		create(dataMap("default", "names", a.Name, "one", b.Name, "two", "other."+a.Name, "three"))
	})
	for _, want := range []string{
		"name: p-<generated>-child\n  namespace: team-<generated>\n", "parent: team-<generated>/p-<generated>\n", "last: made deleted-<generated> <uid>\n",
		"container: tarn://<uid of ConfigMap team-<generated>/p-<generated>>/main/0\n", "message: since <time>\n", "generateName: p-<generated>-\n  name: p-<generated>-<generated>\n",
		"long: " + strings.Repeat("l", 58) + "<generated>.\n", "child: p-<generated>-<generated>\n", "part: web-01\n",
		"  other.q-<generated>: three\n  q-<generated>: one\n  q-<generated> (2): two\n",
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in\n%s", want, dump)
		}
	}
}

// A controller that names a child after a parent with a generated name is correct.
func TestExploreComparesNamesOfGeneratedParents(t *testing.T) {
	opts := apiserver.ExploreOptions{SameState: true}
	failed, report, runs := apiserver.ExploreQuietly(t, opts, func(t testing.TB, server *apiserver.Server) {
		server.Supervise(t, exploredProgram(func(ctx context.Context, client kubernetes.Interface) error {
			maps := client.CoreV1().ConfigMaps("default")
			list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "parent"})
			if err != nil {
				return err
			}
			if len(list.Items) == 0 {
				parent := dataMap("default", "p-*")
				parent.Labels = map[string]string{"parent": ""}
				if parent, err = maps.Create(ctx, parent, metav1.CreateOptions{}); err != nil {
					return err
				}
				list.Items = append(list.Items, *parent)
			}
			_, err = maps.Create(ctx, dataMap("default", list.Items[0].Name+"-child"), metav1.CreateOptions{})
			return err
		}))
		<-time.After(time.Second / 2) // before a killed program starts again, so that the names differ
		if _, err := server.Create(configMap("other")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
	})
	if failed != "" || runs != 5 {
		t.Errorf("%d runs, %s failed with\n%s", runs, failed, report)
	}
}

// A dump shows what a client gets, whatever the version in which an object was stored first.
func TestDumpShowsAServedVersion(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	define := func(versions string) {
		t.Helper()
		crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ponds.example.com}\nspec:\n" +
			"  group: example.com\n  scope: Namespaced\n  names: {plural: ponds, kind: Pond}\n  versions: " + versions + "\n"
		if err := s.LoadYAML([]byte(crd)); err != nil {
			t.Fatal(err)
		}
	}
	const schema = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
	define("[{name: v1, served: true, storage: true, " + schema + "}]")
	if err := s.LoadYAML([]byte("apiVersion: example.com/v1\nkind: Pond\nmetadata: {name: blue}\n")); err != nil {
		t.Fatal(err)
	}
	define("[{name: v2, served: true, storage: true, " + schema + "}, {name: v1, served: false, storage: false, " + schema + "}]")
	if dump := string(s.Dump("ponds")); !strings.HasPrefix(dump, "apiVersion: example.com/v2\n") {
		t.Errorf("dumped as\n%s", dump)
	}
}

func TestDumpOfEventsIsTheSameInEveryRun(t *testing.T) {
	dumps := map[string]bool{}
	for run, host := range []string{"node-a", "node-b"} {
		s := apiserver.Start(t, apiserver.Options{})
		for range run {
			fill(t, s, pod(fmt.Sprint("other-", run))) // versions differ
		}
		web := must(s.Create(pod("web"))).(*corev1.Pod)
		suffix := fmt.Sprintf("%016x%08x", time.Now().UnixNano(), run)
		fill(t, s, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "web." + suffix},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web", UID: web.UID, ResourceVersion: web.ResourceVersion},
			Source:         corev1.EventSource{Component: "kubelet", Host: host}, EventTime: metav1.NowMicro(),
			Reason: "Started", Message: "see web." + suffix, Action: "Start", ReportingController: "kubelet", ReportingInstance: "kubelet-" + host,
		})
		dumps[string(s.Dump("events"))] = true
	}
	if len(dumps) != 1 {
		t.Errorf("dumps: %v", dumps)
	}
	for dump := range dumps {
		if !strings.Contains(dump, "name: web.<generated>\n") || !strings.Contains(dump, "message: see web.<generated>\n") {
			t.Error(dump)
		}
	}
}
