package cli

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// sse is a client of an event stream.
type sse struct {
	*http.Response
	lines *bufio.Scanner
	last  string // id of the last event that had one
}

// follow opens an event stream, once the mirror is synced.
func follow(t *testing.T, url, lastID string) *sse {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if lastID != "" {
			req.Header.Set("Last-Event-ID", lastID)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusServiceUnavailable {
			resp.Body.Close()
			continue
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		return &sse{resp, lines, lastID}
	}
}

// next returns the next event as "TYPE NAME", or "" at the end of the stream.
func (s *sse) next(t *testing.T) string {
	t.Helper()
	event, data := "", ""
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "event":
			event = value
		case "data":
			data = value
		case "id":
			s.last = value
		case "":
			if data == "" { // a comment
				continue
			}
			var line struct {
				Type   string
				Object struct{ Metadata struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(data), &line); err != nil || line.Type != event && event != "RESET" {
				t.Fatalf("%s: %s: %v", event, data, err)
			}
			return strings.TrimSuffix(event+" "+line.Object.Metadata.Name, " ")
		}
	}
	return ""
}

// batch returns the events up to the next BOOKMARK, sorted.
func (s *sse) batch(t *testing.T) (events []string) {
	t.Helper()
	for {
		switch event := s.next(t); event {
		case "BOOKMARK":
			slices.Sort(events)
			return events
		case "":
			t.Fatalf("the stream ended after %v", events)
		default:
			events = append(events, event)
		}
	}
}

// until reads batches until all of these events have come, and returns the others.
func (s *sse) until(t *testing.T, events ...string) (others []string) {
	t.Helper()
	for len(events) > 0 {
		for _, event := range s.batch(t) {
			if i := slices.Index(events, event); i >= 0 {
				events = slices.Delete(events, i, i+1)
			} else {
				others = append(others, event)
			}
		}
	}
	return others
}

func TestMirrorStreamsChangesAndResumes(t *testing.T) {
	server, kubeconfig := newMirroredServer(t)
	_, address := mirrorOf(t, kubeconfig, "pods", "-A")
	all := follow(t, address+"/v1/pods?watch", "")
	if got := all.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %s", got)
	}
	some := follow(t, address+"/v1/pods?watch=true&namespace=shop&labelSelector=app%3Ddb", "")
	if got := all.batch(t); !slices.Equal(got, []string{"ADDED a", "ADDED b", "ADDED c", "ADDED d"}) {
		t.Errorf("%v", got)
	}
	if got := some.batch(t); !slices.Equal(got, []string{"ADDED c", "ADDED d"}) {
		t.Errorf("%v", got)
	}

	// b enters the selection, c leaves it, d changes within it.
	d := onNode("shop", "d", "n1", "db")
	d.Annotations = map[string]string{"a": "b"}
	replace(t, server, onNode("shop", "b", "n1", "db"), onNode("shop", "c", "n2", "web"), d)
	if others := all.until(t, "MODIFIED b", "MODIFIED c", "MODIFIED d"); len(others) > 0 {
		t.Errorf("%v", others)
	}
	if others := some.until(t, "ADDED b", "DELETED c", "MODIFIED d"); len(others) > 0 {
		t.Errorf("%v", others)
	}

	// What happens while a client is away is sent when it returns, and nothing else.
	all.Body.Close()
	if all.last == "" {
		t.Fatal("no id")
	}
	if err := server.Delete(onNode("default", "a", "", "")); err != nil {
		t.Fatal(err)
	}
	create(t, server, onNode("default", "e", "n1", "web"))
	again := follow(t, address+"/v1/pods?watch", all.last)
	if others := again.until(t, "DELETED a", "ADDED e"); len(others) > 0 {
		t.Errorf("%v", others)
	}
	// Another client with the same id as well.
	twin := follow(t, address+"/v1/pods?watch", all.last)
	if others := twin.until(t, "DELETED a", "ADDED e"); len(others) > 0 {
		t.Errorf("%v", others)
	}
	unknown := follow(t, address+"/v1/pods?watch", "7")
	if got := unknown.next(t); got != "RESET" {
		t.Errorf("%s", got)
	}
	if got := unknown.batch(t); !slices.Equal(got, []string{"ADDED b", "ADDED c", "ADDED d", "ADDED e"}) {
		t.Errorf("%v", got)
	}
}

func TestMirrorEndsStreamsWithTheServer(t *testing.T) {
	_, kubeconfig := newMirroredServer(t)
	b, address := mirrorOf(t, kubeconfig, "nodes")
	s := follow(t, address+"/v1/nodes?watch", "")
	s.batch(t)
	b.stop()
	if b.code != exitDone {
		t.Errorf("exit %d: %s", b.code, b.err)
	}
	for s.next(t) != "" { // up to the end
	}
}

func TestMirrorLimitsStreams(t *testing.T) {
	_, kubeconfig := newMirroredServer(t)
	_, address := mirrorOf(t, kubeconfig, "nodes")
	for range watchMost {
		follow(t, address+"/v1/nodes?watch", "").batch(t)
	}
	if s := follow(t, address+"/v1/nodes?watch", ""); s.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %d", s.StatusCode)
	}
	for query, want := range map[string]int{"?watch&limit=3": 400, "?watch&labelSelector=a%20b": 400, "?watch&watch": 400} {
		if code, body := ask(t, http.MethodGet, address+"/v1/nodes"+query, ""); code != want || !isProblem(body) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

func TestEventStreamsMaskSecretsAndEscapeControlCharacters(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	login := secret("login", "hunter2")
	login.Annotations = map[string]string{"note": hostile}
	login.Type = corev1.SecretTypeOpaque
	create(t, server, login)
	_, address := mirrorOf(t, kubeconfig, "secrets")
	s := follow(t, address+"/v1/secrets?watch", "")
	login.Data["password"] = []byte("hunter3")
	for n := 0; n < 2; {
		if !s.lines.Scan() {
			t.Fatal("the stream ended")
		}
		line := s.lines.Text()
		refuseRaw(t, "event", line)
		if strings.Contains(line, "aHVudGVy") {
			t.Errorf("the secret is shown: %s", line)
		}
		if strings.Contains(line, hidden) {
			if n++; n == 1 {
				login.Labels = map[string]string{"a": "b"}
				replace(t, server, login)
			}
		}
	}
}

// TestSnapshotsToResumeFromAreBounded uses virtual time.
func TestSnapshotsToResumeFromAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := store.New(object.Meta[*unstructured.Unstructured](), store.Options[*unstructured.Unstructured]{})
		if err != nil {
			t.Fatal(err)
		}
		at := func(version int) *heldSnapshot {
			mark := object.Mark{Scope: object.Everything, Version: object.Version(strconv.Itoa(version))}
			if _, err := st.Apply(&object.Batch[*unstructured.Unstructured]{Marks: []object.Mark{mark}}, nil); err != nil {
				t.Fatal(err)
			}
			return &heldSnapshot{Snapshot: st.Snapshot(), users: 1}
		}
		var r resumable
		kept := func() int {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.kept)
		}
		for version := 1; version <= resumeMost+1; version++ {
			h := at(version)
			r.keep(h)
			r.drop(h)
		}
		if r.take("1") != nil || r.take("2") == nil || kept() != resumeMost {
			t.Errorf("%d are kept", kept())
		}
		<-time.After(resumeFor / 2)
		again := r.take("3")
		r.keep(again)
		<-time.After(resumeFor / 2)
		synctest.Wait()
		if kept() != 1 || r.take("3") != again {
			t.Errorf("%d are kept", kept())
		}
		<-time.After(resumeFor)
		synctest.Wait()
		if kept() != 0 || r.take("3") != nil {
			t.Errorf("%d are kept", kept())
		}
	})
}
