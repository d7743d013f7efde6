package apiserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const streamed = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"

func TestListFaultsMatchStreamingLists(t *testing.T) {
	s := Start(t, Options{})
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: s.transport}
	for _, f := range []Fault{
		{Kind: Unavailable, Verb: "list"}, {Kind: Gone, Verb: "list"}, {Kind: Forbidden, Verb: "watch"}, {Kind: TooManyRequests},
	} {
		f.Times = 1
		if _, err := s.Inject(f); err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(memoryHost + streamed)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Errorf("%+v hit no request", f)
		}
	}
	if _, err := s.Inject(Fault{Kind: TruncateBody, Verb: "list", Times: 1}); err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(memoryHost + streamed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil || strings.Count(string(raw), "ADDED") != 2 || strings.Contains(string(raw), "BOOKMARK") {
		t.Errorf("half a list: %v %s", err, raw)
	}
	// A plain watch is not a list.
	if _, err := s.Inject(Fault{Kind: Unavailable, Verb: "list", Optional: true}); err != nil {
		t.Fatal(err)
	}
	if resp, err = client.Get(memoryHost + "/api/v1/configmaps?watch=1&timeoutSeconds=1"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

func TestAnUnusedFaultFailsTheTest(t *testing.T) {
	var test recorder
	s := Start(&test, Options{})
	for _, f := range []Fault{
		{Kind: Unavailable, Resource: "nodes"}, {Kind: CutWatch, After: 5}, {Kind: EmptyPage}, // hit no request
		{Kind: Forbidden, Resource: "pods"}, {Kind: Gone, Resource: "nodes", Optional: true},
	} {
		remove, err := s.Inject(f)
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == Unavailable {
			remove()
		}
	}
	client := &http.Client{Transport: s.transport}
	for _, path := range []string{"/api/v1/pods", "/api/v1/configmaps", "/api/v1/configmaps?watch=1&timeoutSeconds=1"} {
		resp, err := client.Get(memoryHost + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	failed := test.end()
	text := strings.Join(failed, "\n")
	if len(failed) != 3 || !strings.Contains(text, "unavailable") || !strings.Contains(text, "cut-watch") || !strings.Contains(text, "empty-page") {
		t.Errorf("the test failed with\n%s", text)
	}
}

func TestDumpOfAnUnknownResourceFailsTheTest(t *testing.T) {
	var test recorder
	s := Start(&test, Options{})
	if dump := string(s.Dump("configmaps", "events.events.k8s.io", "deployments.apps")); dump != "" {
		t.Error(dump)
	}
	if dump := string(s.Dump("pods", "podz")); dump != "# apiserver: dump: the server does not serve a resource \"podz\"; specify one such as pods or deployments.apps\n" {
		t.Error(dump)
	}
	if failed := test.end(); len(failed) != 1 || !strings.Contains(failed[0], `"podz"`) {
		t.Errorf("the test failed with %q", failed)
	}
}
