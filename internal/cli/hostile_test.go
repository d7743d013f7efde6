package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// hostile contains characters that a terminal interprets or that YAML and JSON must escape:
// escape sequences with ESC and U+009B, DEL, bidirectional controls, a byte order mark, a
// noncharacter and line ends.
const hostile = "\x1b]0;title\a\x1b[2J\x1b[35m\u009b2J\x7f\u202edrow\u2066\u200f\u2028\ufeff\ufffe\U000e0001\r\nnext\tcell"

// refuseRaw fails if text contains characters that a terminal would interpret.
func refuseRaw(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Errorf("%s: %q is raw in the output: %.300q", what, r, text[max(i-80, 0):])
			return
		}
	}
}

// TestControlCharactersFromServersAreEscaped uses a server whose errors contain escape sequences.
func TestControlCharactersFromServersAreEscaped(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusUnauthorized} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Add("Warning", `299 - "\x1b[2J`+"\u009b"+`2J"`)
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{ // the client reports a failed write
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: hostile, Code: int32(code),
			})
		}))
		defer server.Close()
		kubeconfig := kubeconfigFor(t, server.URL)
		for _, args := range []string{"watch pods", "watch pods --once", "doctor pods", "watch pods -vv"} {
			r := call(t.Context(), append(strings.Fields(args), "--kubeconfig", kubeconfig)...)
			if r.code != exitFailed || !strings.Contains(r.err, "drow") {
				t.Errorf("%d to %s: %v", code, args, r)
			}
			refuseRaw(t, args, r.out+r.err)
		}
	}
}

// TestControlCharactersFromFilesAndArgumentsAreEscaped uses kubeconfigs, seeds and arguments
// with escape sequences.
func TestControlCharactersFromFilesAndArgumentsAreEscaped(t *testing.T) {
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	// Characters that YAML rejects are escaped; JSON's surrogate pairs are not valid in YAML.
	text := strings.NewReplacer("\u007f", `\u007f`, "\u009b", `\u009b`, "\ufffe", `\ufffe`, "\ufeff", `\ufeff`).Replace(string(quoted))
	dir := t.TempDir()
	named := filepath.Join(dir, "a\x1b[2J\u202e.yaml")
	kind := write(t, filepath.Join(dir, "kind.yaml"), "apiVersion: v1\nkind: "+text+"\nmetadata: {name: a}\n")
	group := write(t, filepath.Join(dir, "group.yaml"), "apiVersion: "+text+"\nkind: Pod\nmetadata: {name: a}\n")
	name := write(t, filepath.Join(dir, "name.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: "+text+"}\n")
	key := write(t, filepath.Join(dir, "key.yaml"), "apiVersion: v1\nkind: Pod\n"+text+": 1\n"+text+": 2\n")
	contexts := write(t, filepath.Join(dir, "contexts"), "apiVersion: v1\nkind: Config\ncurrent-context: "+text+"\ncontexts: [{name: "+text+", context: {cluster: "+text+"}}]\n")
	host := write(t, filepath.Join(dir, "host"), "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: "+text+"}}]\n")
	_, good := serve(t, apiserver.Options{})
	for _, args := range [][]string{
		{"apiserver", "--seed", kind},
		{"apiserver", "--seed", group},
		{"apiserver", "--seed", name},
		{"apiserver", "--seed", key},
		{"apiserver", "--seed", named},
		{"apiserver", "--seed", write(t, named, "a")},
		{"apiserver", "--listen", hostile},
		{"apiserver", "--faults=" + hostile},
		{"apiserver", "--kubeconfig-out", filepath.Join(dir, hostile, "x")},
		{"demo", "--faults", hostile},
		{hostile},
		{"watch", "--" + hostile},
		{"watch", hostile, "--kubeconfig", good},
		{"watch", "pods/" + hostile, "--kubeconfig", good},
		{"watch", "pods", "-n", hostile},
		{"watch", "pods", "-l", hostile},
		{"watch", "pods", "-o", hostile},
		{"watch", "pods", "--field-selector", hostile},
		{"watch", "pods", "--field-selector", "a=" + hostile, "--kubeconfig", good},
		{"watch", "pods", "--once", "--timeout", hostile},
		{"watch", "pods", "--kubeconfig", named + "x"},
		{"watch", "pods", "--kubeconfig", kind},
		{"watch", "pods", "--kubeconfig", host},
		{"watch", "pods", "--kubeconfig", contexts, "--context", "b"},
		{"watch", "pods", "--kubeconfig", contexts, "--context", hostile},
		{"watch", "pods", "--kubeconfig", contexts},
		{"demo", "--listen", hostile},
		{"doctor", "pods", "-o", hostile},
		{"version", hostile},
		{"completion", hostile},
	} {
		r := call(t.Context(), args...)
		if r.code == exitDone || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%q: %v", args, r)
		}
		refuseRaw(t, strings.Join(args, " "), r.out+r.err)
	}
	// Completions are output as well.
	r := call(t.Context(), "__complete", "watch", "pods", "--kubeconfig", contexts, "--context", "")
	refuseRaw(t, "completion", r.out+r.err)
}

// TestControlCharactersFromObjectsAreEscaped shows an object with escape sequences in all outputs.
func TestControlCharactersFromObjectsAreEscaped(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("a", hostile))
	for _, output := range outputs {
		if output == "diff" {
			continue
		}
		r := call(t.Context(), "watch", "cm", "--once", "-o", output, "--kubeconfig", kubeconfig)
		if r.code != exitDone || r.err != "" {
			t.Errorf("-o %s: %v", output, r)
		}
		refuseRaw(t, output, r.out)
	}
	l := inBackground(t, "watch", "cm", "-o", "diff", "--kubeconfig", kubeconfig)
	l.err.until(t, "watching, 1 object", l.ended)
	replace(t, server, configMap("a", hostile+hostile))
	l.out.until(t, "data.value", l.ended)
	l.stop()
	refuseRaw(t, "diff", l.out.String()+l.err.String())
}

// TestAnObjectThatYAMLCannotEncodeDoesNotEndAView shows one object with a DEL, and then another.
func TestAnObjectThatYAMLCannotEncodeDoesNotEndAView(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("a", "\x7f"), configMap("b", "\ufffe"))
	l := inBackground(t, "watch", "cm", "-o", "yaml", "--kubeconfig", kubeconfig)
	l.err.until(t, "watching, 2 objects", l.ended)
	create(t, server, configMap("later", "1"))
	l.out.until(t, "name: later", l.ended)
	l.stop()
	if l.code != exitDone {
		t.Errorf("exit %d: %s", l.code, l.err)
	}
}

// TestAllOutputGoesThroughThePrinter reads the source: escape sequences are in one file, and the
// streams of the process are used only by main.
func TestAllOutputGoesThroughThePrinter(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for word, allowed := range map[string]string{
			`\x1b`: "printer.go", `\033`: "", `\u001b`: "", "os.Stdout": "main.go", "os.Stderr": "main.go", "fmt.Print": "", "println(": "", "log.Print": "",
		} {
			if file != allowed && bytes.Contains(text, []byte(word)) && !(word == "println(" && bytes.Contains(text, []byte("Fprintln("))) {
				t.Errorf("%s has %s", file, word)
			}
		}
	}
}

// TestEveryOutputFormatEscapesControlCharacters renders hostile values in every field of every
// format, with styles.
func TestEveryOutputFormatEscapesControlCharacters(t *testing.T) {
	res := object.Resource{Group: hostile, Version: hostile, Resource: hostile, Kind: hostile, Namespaced: true}
	key := object.Key{Namespace: hostile, Name: hostile}
	tree := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": hostile, "metadata": map[string]any{"name": hostile, "labels": map[string]any{hostile: value}},
			"status": map[string]any{"phase": value, "conditions": []any{map[string]any{"type": hostile, "reason": value}}},
			hostile:  []any{value, map[string]any{"name": value}},
		}}
	}
	all := []objectChange{
		{res: res, key: key, kind: object.Added, initial: true, obj: tree("a")},
		{res: res, key: key, kind: object.Added, obj: tree(hostile)},
		{res: res, key: key, kind: object.Updated, old: tree("a"), obj: tree(hostile)},
		{res: res, key: key, kind: object.Updated, old: tree(hostile), obj: tree(hostile + hostile)},
		{res: res, key: key, kind: object.Deleted, unseen: true, obj: tree(hostile)},
	}
	ours := regexp.MustCompile("\x1b\\[(0|[12]|3[1236]|1;3[1236])m")
	for i := range all {
		// A server that sends more cells than columns, or fewer.
		all[i].row = &tableRow{key: key, columns: make([]metav1.TableColumnDefinition, i), cells: []any{hostile, nil, map[string]any{hostile: hostile}}}
		for c := range all[i].row.columns {
			all[i].row.columns[c] = metav1.TableColumnDefinition{Name: hostile, Type: "string", Format: "name"}
		}
	}
	for _, output := range outputs {
		made, err := rendering{output: output, namespaces: true, several: true, noise: true}.renderer()
		if err != nil {
			t.Fatal(err)
		}
		p := &page{paint: true}
		if err := made.render(p, all); err != nil {
			t.Errorf("-o %s: %v", output, err)
		}
		if styled := slices.Contains([]string{"table", "wide", "yaml", "diff"}, output); ours.MatchString(p.String()) != styled {
			t.Errorf("-o %s has styles: %v", output, !styled)
		}
		refuseRaw(t, output, ours.ReplaceAllString(p.String(), ""))
	}

	broken := &report{Server: hostile, Version: hostile, Broken: true, Resources: []*resourceReport{{
		Resource: hostile, Version: hostile, Namespace: hostile, need: res,
		Findings: []finding{{Check: hostile, Verdict: note, Text: hostile, Fix: hostile}},
	}}}
	refuseRaw(t, "doctor", ours.ReplaceAllString(broken.text(rulesFor(broken.Resources), true).String(), ""))
	var out strings.Builder
	if err := broken.json(&out, rulesFor(broken.Resources)); err != nil {
		t.Error(err)
	}
	refuseRaw(t, "doctor -o json", out.String())

	out.Reset()
	s := &screen{out: newPrinter(&out), errs: newPrinter(&out)}
	s.say("%s", hostile)
	(&demo{screen: s}).say("%s", hostile)
	fmt.Fprint(newPrinter(&out), greeting("tarn", hostile, hostile, 1, apiserverFlags{seed: hostile, admin: true}, faultSpec{certain: []apiserver.Fault{{Kind: apiserver.Stall, Resource: hostile}}}))
	refuseRaw(t, "demo, screen and greeting", strings.ReplaceAll(out.String(), "\t", ""))
}
