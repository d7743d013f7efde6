package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// exchange is a request to be sent to both servers. Path, query and body may name parts of
// earlier answers: {ns}, and {x.uid}, {x.version}, {x.continue} and {x.token} of the answer saved as x.
// {hook} and {ca} are the URL of the webhooks and the certificate in base64.
type exchange struct {
	name   string // what it asks, with the id of the semantics where there is one
	method string // GET if empty
	path   string // below the namespace's configmaps if it has no slash in front
	query  string
	body   string
	typ    string // content type of the body, JSON if empty
	accept string // JSON if empty
	events int    // how many events of a watch are read; 0 for an answer that ends
	until  string // what the answer must have in it; it is asked for again until then
	save   string
	as     string   // the user, an administrator if empty, or "anonymous"
	header []string // names and values
	forget bool     // the server forgets its history first
	// elsewhere has something happen in another namespace once the answer has begun: the
	// real server sends bookmarks of newer versions only.
	elsewhere bool
}

// saved are the parts of an answer that later requests need.
type saved struct{ uid, version, next, token string }

// side is one server and what it answered so far.
type side struct {
	server
	clients map[string]*http.Client // by user
	saved   map[string]saved
	seen    map[string]string // texts that differ from server to server, and what stands for them
}

func newSide(t *testing.T, s server) *side {
	t.Helper()
	return &side{s, map[string]*http.Client{}, map[string]saved{}, map[string]string{s.namespace: "{ns}", s.address: "{host}"}}
}

// client returns the client of a user.
func (s *side) client(t *testing.T, user string) *http.Client {
	t.Helper()
	client := s.clients[user]
	if client == nil {
		rt, err := rest.TransportFor(s.configFor(t, user))
		if err != nil {
			t.Fatal(err)
		}
		client = &http.Client{Transport: rt}
		t.Cleanup(client.CloseIdleConnections)
		s.clients[user] = client
	}
	return client
}

// fill replaces what names parts of earlier answers.
func (s *side) fill(text string) string {
	text = strings.ReplaceAll(text, "{ns}", s.namespace)
	if strings.Contains(text, "{hook}") {
		text = strings.NewReplacer("{hook}", hooks.URL, "{ca}", hooksBundle()).Replace(text)
	}
	for name, v := range s.saved {
		text = strings.NewReplacer("{"+name+".uid}", v.uid, "{"+name+".version}", v.version, "{"+name+".continue}", v.next, "{"+name+".token}", v.token).Replace(text)
	}
	return text
}

// sendAll sends all requests and returns the answers.
func (s *side) sendAll(t *testing.T, exchanges []exchange) (answers []map[string]any) {
	t.Helper()
	for _, x := range exchanges {
		if x.forget {
			s.forget(t)
		}
		answers = append(answers, s.send(t, x))
	}
	return answers
}

// send sends a request and returns the answer as a tree in which nothing is left that
// differs from server to server or from run to run.
func (s *side) send(t *testing.T, x exchange) (answer map[string]any) {
	t.Helper()
	if x.until == "" {
		return s.sendOnce(t, x)
	}
	patience.Until(t, x.name, func() bool {
		answer = s.sendOnce(t, x)
		return strings.Contains(short(answer), x.until)
	})
	return answer
}

func (s *side) sendOnce(t *testing.T, x exchange) map[string]any {
	t.Helper()
	path := x.path
	if !strings.HasPrefix(path, "/") {
		path = strings.TrimSuffix("/api/v1/namespaces/{ns}/configmaps/"+path, "/")
	}
	if x.query != "" {
		path += "?" + x.query
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, x.method, s.config.Host+s.fill(path), strings.NewReader(s.fill(x.body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "conformance/1")
	req.Header.Set("Accept", orElse(x.accept, "application/json"))
	if x.body != "" {
		req.Header.Set("Content-Type", orElse(x.typ, "application/json"))
	}
	for i := 0; i+1 < len(x.header); i += 2 {
		req.Header.Add(x.header[i], s.fill(x.header[i+1]))
	}
	res, err := s.client(t, s.fill(x.as)).Do(req)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	defer res.Body.Close()
	if x.elsewhere {
		s.sendOnce(t, exchange{
			name: "something elsewhere", method: "POST", path: "/api/v1/namespaces/default/configmaps",
			body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"elsewhere-"}}`,
		})
	}
	answer := map[string]any{"status": res.StatusCode, "header": header(res.Header)}
	if x.events > 0 && res.StatusCode == http.StatusOK {
		events, err := readEvents(res, x.events)
		if err != nil {
			events = append(events, err.Error())
		}
		s.remember(x.save, events)
		answer["events"] = s.normal("", events)
		return answer
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	body := decodeBody(res.Header.Get("Content-Type"), raw)
	s.remember(x.save, body)
	answer["body"] = s.normal("", body)
	return answer
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// header are the fields that clients read.
func header(h http.Header) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"Content-Type", "Cache-Control", "Retry-After", "Warning", "Allow"} {
		if v := h.Values(name); len(v) > 0 {
			out[name] = strings.Join(v, "; ")
		}
	}
	return out
}

// decodeBody makes a tree of an answer, or leaves it as text.
func decodeBody(contentType string, raw []byte) any {
	media, _, _ := mime.ParseMediaType(contentType)
	switch media {
	case "application/vnd.kubernetes.protobuf":
		return decodeProtobuf(raw)
	case "application/yaml":
		if tree, err := yaml.YAMLToJSON(raw); err == nil {
			raw = tree
		}
	}
	var tree any
	if json.Unmarshal(raw, &tree) == nil {
		return tree
	}
	return string(raw)
}

func decodeProtobuf(raw []byte) any {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return "undecodable: " + err.Error()
	}
	return treeOf(obj)
}

func treeOf(obj runtime.Object) any {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err.Error()
	}
	raw, err := json.Marshal(tree) // so that all numbers are of one type
	if err != nil {
		return err.Error()
	}
	var out any
	_ = json.Unmarshal(raw, &out) // it was just made
	return out
}

// readEvents reads the first events of a watch.
func readEvents(res *http.Response, n int) (events []any, err error) {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if media == "application/vnd.kubernetes.protobuf" {
		frames := streaming.NewDecoder(protobuf.LengthDelimitedFramer.NewFrameReader(res.Body), protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme))
		for range n {
			var event metav1.WatchEvent
			if _, _, err := frames.Decode(nil, &event); err != nil {
				return events, err
			}
			events = append(events, map[string]any{"type": event.Type, "object": decodeProtobuf(event.Object.Raw)})
		}
		return events, nil
	}
	lines := bufio.NewReader(res.Body)
	for range n {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return append(events, "end"), nil
		}
		var event any
		if err := errors.Join(err, json.Unmarshal(line, &event)); err != nil {
			return events, fmt.Errorf("%w in %q", err, bytes.TrimSpace(line))
		}
		events = append(events, event)
	}
	return events, nil
}

// remember keeps what later requests need, and what is not to be compared.
func (s *side) remember(name string, answer any) {
	if events, ok := answer.([]any); ok && len(events) > 0 {
		last, _ := events[len(events)-1].(map[string]any)
		answer = last["object"]
	}
	tree, _ := answer.(map[string]any)
	m, _ := tree["metadata"].(map[string]any)
	text := func(field string) string { v, _ := m[field].(string); return v }
	if name != "" {
		status, _ := tree["status"].(map[string]any)
		token, _ := status["token"].(string)
		s.saved[name] = saved{text("uid"), text("resourceVersion"), text("continue"), token}
		spec, _ := tree["spec"].(map[string]any)
		if ip, _ := spec["clusterIP"].(string); ip != "" {
			s.seen[ip] = "{clusterIP}" // in tables
		}
	}
	if base := text("generateName"); base != "" {
		s.seen[text("name")] = base + "{suffix}"
	}
	if uid := text("uid"); uid != "" {
		s.seen[uid] = "{uid}"
	}
}

var (
	// versions are those that messages tell.
	versions = regexp.MustCompile(`(current: |too old resource version: |in record \()\d+( \(\d+\))?`)
	ages     = regexp.MustCompile(`^(\d+[smh])+$|^\d{4}-\d\d-\d\dT[\d:]+Z$`)
	asked    = regexp.MustCompile(`(response\.uid=)"[0-9a-f-]{36}"`)
	suffixes = regexp.MustCompile(`(Not_A_Name-)[a-z0-9]{5}\b`)
	uuids    = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	times    = []string{"creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastPhaseTransitionTime", "time", "buildDate", "lastUpdateTime", "expirationTimestamp"}
	opaque   = []string{"uid", "resourceVersion", "continue", "storageVersionHash", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "remainingItemCount", "disruptedPods", "token", "authentication.kubernetes.io/credential-id"}
)

// normal replaces what differs from server to server.
func (s *side) normal(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name := range out {
			switch {
			case slices.Contains(times, name) && out[name] != nil && out[name] != "":
				out[name] = "{" + name + "}"
			case slices.Contains(opaque, name) && out[name] != "" && out[name] != "0":
				out[name] = "{" + name + "}"
			default:
				out[name] = s.normal(name, out[name])
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.normal(field, v[i])
		}
		if field == "resourceRules" || field == "nonResourceRules" || field == "managedFields" { // in no order, or in that of time
			slices.SortFunc(out, func(a, b any) int { return strings.Compare(short(a), short(b)) })
		}
		return out
	case string:
		for text, stands := range s.seen {
			v = strings.ReplaceAll(v, text, stands)
		}
		switch {
		case field == "serverAddress":
			return "{host}"
		case field == "cells" && ages.MatchString(v):
			return "{age}"
		}
		v = versions.ReplaceAllString(v, "$1{version}")
		v = asked.ReplaceAllString(v, "$1{uid}")
		v = suffixes.ReplaceAllString(v, "$1{suffix}")
		return uuids.ReplaceAllString(v, "{uid}")
	}
	return v
}
