package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/hostcheck"
)

// mirrorOf runs tarn mirror and returns its address.
func mirrorOf(t *testing.T, kubeconfig string, args ...string) (*session, string) {
	t.Helper()
	b := inBackground(t, append([]string{"mirror", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"}, args...)...)
	_, rest, _ := strings.Cut(b.out.until(t, "/v1/", b.ended), " on ")
	address, _, _ := strings.Cut(rest, ". ")
	return b, address
}

// ask sends a request and returns the response.
func ask(t *testing.T, method, url, host string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// listed returns the object names and the continue value of a response.
func listed(t *testing.T, address, query string) (names []string, next string) {
	t.Helper()
	code, body := ask(t, http.MethodGet, address+"/v1/"+query, "")
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
		}
		Count    int
		Continue string
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || list.Count != len(list.Items) {
		t.Fatalf("%s: %d, %v, %s", query, code, err, body)
	}
	for _, item := range list.Items {
		names = append(names, strings.TrimPrefix(item.Metadata.Namespace+"/"+item.Metadata.Name, "/"))
	}
	return names, list.Continue
}

// isProblem reports whether a response is a JSON error.
func isProblem(body string) bool {
	var p struct{ Error string }
	return json.Unmarshal([]byte(body), &p) == nil && p.Error != ""
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

func onNode(namespace, name, node, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func newMirroredServer(t *testing.T) (*apiserver.Server, string) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		node("n1", "a"), node("n2", "b"),
		onNode("default", "a", "n1", "web"), onNode("shop", "b", "n1", "web"), onNode("shop", "c", "n2", "db"), onNode("shop", "d", "n1", "db"))
	return server, kubeconfig
}

func TestMirrorServesByKeyNamespaceSelectorAndIndex(t *testing.T) {
	server, kubeconfig := newMirroredServer(t)
	b, address := mirrorOf(t, kubeconfig, "pods,nodes", "-A", "--index", "pods:node=.spec.nodeName", "--index", "zone=metadata.labels.zone")
	b.err.until(t, "pods: live", b.ended)
	b.err.until(t, "nodes: live", b.ended)

	for query, want := range map[string]string{
		"pods":                                           "default/a shop/b shop/c shop/d",
		"po?namespace=shop":                              "shop/b shop/c shop/d",
		"pods?labelSelector=app%3Dweb":                   "default/a shop/b",
		"pods?labelSelector=app%21%3Dweb":                "shop/c shop/d",
		"pod?index=node&value=n1":                        "default/a shop/b shop/d",
		"pods?index=node&value=n1&labelSelector=app=db":  "shop/d",
		"pods?index=node&value=n1&namespace=default":     "default/a",
		"pods?labelSelector=app&namespace=shop&limit=10": "shop/b shop/c shop/d",
		"pods?index=node&value=nowhere":                  "",
		"nodes?index=zone&value=b":                       "n2",
	} {
		if names, next := listed(t, address, query); strings.Join(names, " ") != want || next != "" {
			t.Errorf("%s: %v, continue %q, want %s", query, names, next, want)
		}
	}
	for _, base := range []string{"pods?", "pods?namespace=shop&", "pods?labelSelector=app&"} {
		all, _ := listed(t, address, base)
		var paged []string
		for next, more := "", true; more; more = next != "" {
			var page []string
			page, next = listed(t, address, base+"limit=1&continue="+next)
			paged = append(paged, page...)
		}
		if !slices.Equal(all, paged) {
			t.Errorf("%s: page by page %v, at once %v", base, paged, all)
		}
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/readyz?live": 200, "/metrics": 200, "/": 200, "/v1": 200,
		"/v1/pods/shop/b": 200, "/v1/nodes/n1": 200, "/v1/pods?values=node": 200,
		"/v1/pods/shop/x": 404, "/v1/services": 404, "/nowhere": 404,
		"/v1/pods/shop": 400, "/v1/nodes/shop/n1": 400, "/v1/pods?labelSelector=%3D": 400, "/v1/pods?limit=x": 400,
		"/v1/pods?index=zones&value=a": 400, "/v1/pods?values=zones": 400,
		"/v1/pods?colour=red": 400, "/v1?limit=1": 400, "/v1/pods/shop/b?limit=1": 400, "/readyz?lives": 400, "/v1/pods?limit=1&limit=2": 400, "/v1/pods?a=%zz": 400,
		"/v1/pods?index=node": 400, "/v1/pods?value=n1": 400, "/v1/pods?values=node&namespace=shop": 400,
		"/v1/pods?continue=a": 400, "/v1/pods?continue=a/b/c": 400, "/v1/pods?continue=/a": 400, "/v1/nodes?continue=a/b": 400, "/v1/nodes?continue=n1": 200,
	} {
		code, body := ask(t, http.MethodGet, address+path, "")
		if code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
		if want >= 400 && !isProblem(body) {
			t.Errorf("%s: no sentence: %s", path, body)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPatch} {
		for _, path := range []string{"/v1/pods", "/readyz", "/nowhere"} {
			if code, body := ask(t, method, address+path, ""); code != http.StatusMethodNotAllowed || !isProblem(body) {
				t.Errorf("%s %s: %d, %s", method, path, code, body)
			}
		}
	}
	if _, body := ask(t, http.MethodGet, address+"/v1/pods?values=node", ""); !strings.Contains(body, `"values":{"n1":3,"n2":1}`) {
		t.Error(body)
	}
	if _, body := ask(t, http.MethodGet, address+"/metrics", ""); !strings.Contains(body, `tarn_informer_objects{informer="pods"} 4`) || !strings.Contains(body, "go_goroutines") ||
		!strings.Contains(body, `tarn_informer_index_values{index="node",informer="pods"} 2`) || !strings.Contains(body, `tarn_informer_index_values{index="zone",informer="nodes"} 2`) {
		t.Error(body)
	}
	_, one := ask(t, http.MethodGet, address+"/v1/pods/shop/b", "")
	var got corev1.Pod
	if err := json.Unmarshal([]byte(one), &got); err != nil || got.Spec.NodeName != "n1" || got.Kind != "Pod" {
		t.Errorf("%v: %s", err, one)
	}

	// A mirror that lost its server reports it and keeps serving.
	server.RefuseConnections(true)
	server.Cut("pods")
	b.err.until(t, "pods: stale", b.ended)
	b.err.until(t, "mirror/pods: No changes of pods arrive", b.ended)
	b.err.until(t, "; if that lasts, check the API server and the network.", b.ended)
	if code, body := ask(t, http.MethodGet, address+"/readyz?live", ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "live/pods failed: stale, 4 objects: ") {
		t.Errorf("%d: %s", code, body)
	}
	if code, _ := ask(t, http.MethodGet, address+"/readyz", ""); code != http.StatusOK {
		t.Errorf("without ?live the last state is enough: %d", code)
	}
	b.stop()
	if b.code != exitDone {
		t.Errorf("exit %d: %s", b.code, b.err)
	}
}

func TestMirrorRejectsOtherHosts(t *testing.T) {
	_, kubeconfig := newMirroredServer(t)
	_, address := mirrorOf(t, kubeconfig, "nodes", "--allow-host", "mirror.example")
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST:80": 200, "127.0.0.1": 200, "[::1]:8484": 200, "mirror.example": 200, "Mirror.Example:1": 200,
		"evil.example": 403, "localhost.evil.example": 403, "10.0.0.1": 403, "127.0.0.1.evil.example": 403,
	} {
		if code, body := ask(t, http.MethodGet, address+"/v1", host); code != want {
			t.Errorf("Host %q: %d, want %d: %s", host, code, want, body)
		}
	}
}

func TestMirrorOnAllAddressesStillChecksTheHost(t *testing.T) {
	_, kubeconfig := newMirroredServer(t)
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if r := call(t.Context(), "mirror", "nodes", "--kubeconfig", kubeconfig, "--listen", listen); r.code != exitUsage || !strings.Contains(r.err, "--allow-remote") {
			t.Errorf("%s is served without being asked for: %v", listen, r)
		}
	}
	_, address := mirrorOf(t, kubeconfig, "nodes", "--listen", "0.0.0.0:0", "--allow-remote", "--allow-host", "mirror.example")
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("not an address to ask at: %s", address)
	}
	for host, want := range map[string]int{"": 200, "mirror.example": 200, "0.0.0.0": 403, "evil.example": 403} {
		if code, body := ask(t, http.MethodGet, address+"/v1", host); code != want {
			t.Errorf("Host %q: %d, want %d: %s", host, code, want, body)
		}
	}
}

func TestTheAddressOfAMirrorIsReachable(t *testing.T) {
	for _, c := range []struct {
		asked, ip, want string
	}{
		{"127.0.0.1:0", "127.0.0.1", "127.0.0.1:80"},
		{"localhost:0", "127.0.0.1", "localhost:80"},
		{"0.0.0.0:0", "0.0.0.0", "127.0.0.1:80"},
		{":0", "::", "127.0.0.1:80"},
		{"[::1]:0", "::1", "[::1]:80"},
		{"192.0.2.1:0", "192.0.2.1", "192.0.2.1:80"},
		{"mirror.example:0", "192.0.2.1", "mirror.example:80"},
	} {
		if got := hostcheck.Reachable(c.asked, &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 80}); got != c.want {
			t.Errorf("%s: %s, want %s", c.asked, got, c.want)
		}
	}
}

func TestMirrorMasksSecretsInIndexes(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"password": []byte("hunter2")}})
	const encoded = "aHVudGVyMg=="
	for _, show := range []bool{false, true} {
		args := []string{"secrets", "--index", "p=.data.password"}
		if show {
			args = append(args, "--show-secrets")
		}
		b, address := mirrorOf(t, kubeconfig, args...)
		b.err.until(t, "secrets: live", b.ended)
		for _, path := range []string{"/v1/secrets", "/v1/secrets/default/s", "/v1/secrets?values=p"} {
			if code, body := ask(t, http.MethodGet, address+path, ""); code != http.StatusOK || strings.Contains(body, encoded) != show {
				t.Errorf("%s with --show-secrets=%v: %d, %s", path, show, code, body)
			}
		}
	}
}

func TestMirrorThatIsNotSyncedSaysWhy(t *testing.T) {
	server, kubeconfig := newMirroredServer(t)
	remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	b, address := mirrorOf(t, kubeconfig, "pods", "-A")
	b.err.until(t, "mirror/pods: The program may not list or watch pods", b.ended)
	b.err.until(t, " Allow list and watch in a role of its user or service account; mirrors start by themselves.", b.ended)
	for _, path := range []string{"/readyz", "/v1/pods", "/v1/pods/shop/b"} {
		if code, body := ask(t, http.MethodGet, address+path, ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "forbidden") {
			t.Errorf("%s: %d, %s", path, code, body)
		}
	}
	remove()
	b.err.until(t, "pods: live", b.ended)
	if code, body := ask(t, http.MethodGet, address+"/readyz", ""); code != http.StatusOK {
		t.Errorf("%d: %s", code, body)
	}
}

func TestMirrorInputErrorsAreOneSentence(t *testing.T) {
	_, kubeconfig := newMirroredServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var all strings.Builder
	for _, c := range []struct {
		name string
		args []string
	}{
		{"nothing", nil},
		{"unknown", []string{"unicorns"}},
		{"selector", []string{"pods", "-l", "==="}},
		{"listen", []string{"pods", "--listen", "8484"}},
		{"port", []string{"pods", "--listen", taken.Addr().String()}},
		{"remote", []string{"pods", "--listen", "0.0.0.0:0"}},
		{"address", []string{"pods", "--listen", "192.0.2.1:0", "--allow-remote"}},
		{"namespace", []string{"pods", "-n", "Bad_NS"}},
		{"index", []string{"pods", "--index", "node"}},
		{"index-path", []string{"pods", "--index", "node=.spec..nodeName"}},
		{"index-resource", []string{"pods", "--index", "nodes:zone=.metadata.name"}},
		{"index-twice", []string{"pods", "--index", "a=.spec.b", "--index", "a=.spec.c"}},
	} {
		r := call(t.Context(), append([]string{"mirror", "--kubeconfig", kubeconfig}, c.args...)...)
		if r.code == exitDone || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: %v", c.name, r)
		}
		all.WriteString(c.name + ": exit " + string(rune('0'+r.code)) + ": " + r.err)
	}
	golden(t, "mirror-input", all.String(), taken.Addr().String(), "TAKEN")
}
