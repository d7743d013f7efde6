package apiserver_test

import (
	"encoding/json"
	"fmt"
	gomaps "maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/soak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owners returns manager/operation[/subresource] and the fields of each entry of the managed fields.
func owners(t testing.TB, a response) map[string]string {
	t.Helper()
	if a.code >= 300 {
		t.Fatalf("%d %s", a.code, a.raw)
	}
	var obj struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal([]byte(a.raw), &obj); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range obj.Metadata.ManagedFields {
		found[strings.TrimSuffix(fmt.Sprintf("%s/%s/%s", e.Manager, e.Operation, e.Subresource), "/")] = e.FieldsV1.GetRawString()
	}
	return found
}

func expectOwners(t testing.TB, what string, a response, want map[string]string) {
	t.Helper()
	got := owners(t, a)
	for name, fields := range want {
		if !strings.Contains(got[name], fields) {
			t.Errorf("%s: the fields of %s lack %s: %v", what, name, fields, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestEveryWriteRecordsItsManager(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	const web, apps = "/apis/apps/v1/namespaces/default/deployments", `"apiVersion":"apps/v1","kind":"Deployment"`
	body := `{` + apps + `,"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"x"}},
		"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"x","image":"x:1"}]}}},"status":{"replicas":7}}`
	want := map[string]string{"one/Update": `"f:replicas":{}`}
	made := do(t, s, http.MethodPost, web+"?fieldManager=one", body)
	expectOwners(t, "create", made, want)
	if got := owners(t, made)["one/Update"]; !strings.Contains(got, `"f:progressDeadlineSeconds"`) || strings.Contains(got, "f:status") {
		t.Errorf("a default has an owner, and what a write ignores has none: %s", got)
	}
	merge := func(path, query, patch string) response {
		return do(t, s, http.MethodPatch, web+"/web"+path+"?fieldManager="+query, patch, "Content-Type", mergePatch)
	}
	want["two/Update"] = `"f:labels":{".":{},"f:by":{}}`
	expectOwners(t, "patch", merge("", "two", `{"metadata":{"labels":{"by":"two"}}}`), want)
	want["two/Update/status"] = `"f:observedGeneration":{}`
	expectOwners(t, "status", merge("/status", "two", `{"status":{"observedGeneration":1}}`), want)
	if a := merge("/scale", "autoscaler", `{"spec":{"replicas":3}}`); a.code != http.StatusOK {
		t.Fatal(a.raw)
	}
	want["autoscaler/Update/scale"], want["one/Update"] = `{"f:spec":{"f:replicas":{}}}`, `"f:image":{}`
	expectOwners(t, "scale", get(t, s, web+"/web"), want)
	want["three/Apply"] = `"f:annotations":{"f:note":{}}`
	applied := do(t, s, http.MethodPatch, web+"/web?fieldManager=three", `{`+apps+`,"metadata":{"annotations":{"note":"a"}}}`, "Content-Type", applyPatch)
	expectOwners(t, "apply", applied, want)
	before := version(s)
	whole, _ := json.Marshal(applied.body)
	if expectOwners(t, "an update of nothing", do(t, s, http.MethodPut, web+"/web?fieldManager=four", string(whole)), want); version(s) != before {
		t.Error("an update of nothing took a version")
	}
	conflict := do(t, s, http.MethodPatch, web+"/web?fieldManager=three", `{`+apps+`,"spec":{"replicas":4}}`, "Content-Type", applyPatch)
	conflict.refused(t, http.StatusConflict, "Conflict", `conflict with "autoscaler" with subresource "scale"`)

	service := do(t, s, http.MethodPost, "/api/v1/namespaces/default/services", `{"metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`, "User-Agent", "agent/1")
	if got := owners(t, service)["agent/Update"]; !strings.Contains(got, `"f:sessionAffinity":{}`) || strings.Contains(got, "clusterIP") {
		t.Errorf("what the server allocates has an owner: %s", got)
	}
	event := do(t, s, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/default/events?fieldManager=m",
		`{"metadata":{"name":"e"},"eventTime":"2026-01-01T00:00:00.000000Z","action":"a","reason":"r","type":"Normal","note":"n","reportingController":"c","reportingInstance":"i"}`)
	expectOwners(t, "event", event, map[string]string{"m/Update": `"f:note":{}`})
	expectOwners(t, "event by its other name", do(t, s, http.MethodPatch, "/api/v1/namespaces/default/events/e?fieldManager=k", `{"message":"o"}`, "Content-Type", mergePatch),
		map[string]string{"k/Update": `"f:message":{}`, "m/Update": `"f:reason":{}`})
}

func TestAPatchReplacesAndClearsManagedFields(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	const blue = "/apis/example.com/v1/namespaces/default/lakes"
	for path, body := range map[string]string{
		configMaps: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"}}`,
		blue:       `{"apiVersion":"example.com/v1","kind":"Lake","metadata":{"name":"a"},"data":{"a":"1"}}`,
	} {
		made := do(t, s, http.MethodPost, path+"?fieldManager=M", body)
		expectOwners(t, path, made, map[string]string{"M/Update": `{"f:data":{".":{},"f:a":{}}}`})
		apply := func(manager string) response {
			return do(t, s, http.MethodPatch, path+"/a?fieldManager="+manager, body, "Content-Type", applyPatch)
		}
		patch := func(value string) response {
			return do(t, s, http.MethodPatch, path+"/a", `[{"op":"replace","path":"/metadata/managedFields","value":`+value+`}]`, "Content-Type", jsonPatch)
		}
		expectOwners(t, "apply", apply("A"), map[string]string{"M/Update": `"f:a":{}`, "A/Apply": `"f:a":{}`})
		entry := `[{"manager":"B","operation":"Apply","apiVersion":"` + made.at("apiVersion") + `","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]`
		expectOwners(t, "replaced", patch(entry), map[string]string{"B/Apply": `"f:a":{}`})
		for _, none := range []string{"[]", "[{}]"} {
			expectOwners(t, "cleared", patch(none), nil)
			expectOwners(t, "an update of an object that is not tracked", do(t, s, http.MethodPatch, path+"/a", `{"data":{"c":"`+none+`"}}`, "Content-Type", mergePatch), nil)
			expectOwners(t, "apply again", apply("A"), map[string]string{"before-first-apply/Update": `"f:c":{}`, "A/Apply": `"f:a":{}`})
		}
	}
}

// An apply cannot convert a manager of a version that the definition no longer has. Another write discards the
// managers, as in Kubernetes 1.36.
func TestApplyFailsForManagersOfAVersionThatIsGone(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes, Versions: []string{"v1alpha1"}}); err != nil {
		t.Fatal(err)
	}
	const all = "/apis/example.com/v1alpha1/namespaces/default/lakes"
	owners(t, do(t, s, http.MethodPost, all+"?fieldManager=old", `{"apiVersion":"example.com/v1alpha1","kind":"Lake","metadata":{"name":"a"},"spec":{"depth":1}}`))
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	blue := strings.Replace(all, "v1alpha1", "v1", 1) + "/a?fieldManager=new"
	do(t, s, http.MethodPatch, blue, `{"apiVersion":"example.com/v1","kind":"Lake","spec":{"depth":2}}`, "Content-Type", applyPatch).
		refused(t, http.StatusInternalServerError, "", "request to convert CR to an invalid group/version: example.com/v1alpha1")
	expectOwners(t, "another write", do(t, s, http.MethodPatch, blue, `{"spec":{"depth":2}}`, "Content-Type", mergePatch), nil)
}

// What a mutating webhook changes belongs to no manager.
func TestWebhooksOwnNothing(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	s.HandleWebhook("hooks", "by", &hook{answer: patchWith(`[{"op":"add","path":"/metadata/annotations","value":{"by":"hook"}}]`)})
	fill(t, s, mutating("by", nil))
	made := do(t, s, http.MethodPost, configMaps+"?fieldManager=M", `{"metadata":{"name":"a"},"data":{"a":"1"}}`)
	expectOwners(t, "create", made, map[string]string{"M/Update": `{"f:data":{".":{},"f:a":{}}}`})
	if made.at("metadata", "annotations", "by") != "hook" {
		t.Errorf("the webhook was not called: %s", made.raw)
	}
}

// fieldOwners is a naive model of one object: its data, and the keys of each manager.
type fieldOwners struct {
	data   map[string]string
	owners map[string]map[string]bool
}

// set changes the data; the manager gets what it changed, and the others lose it.
func (o *fieldOwners) set(manager string, data map[string]string) {
	for _, key := range []string{"a", "b", "c", "d"} {
		was, had := o.data[key]
		is, has := data[key]
		if had == has && was == is {
			continue
		}
		for _, keys := range o.owners {
			delete(keys, key)
		}
		if has {
			o.own(manager)[key] = true
		}
	}
	o.data = data
}

func (o *fieldOwners) own(manager string) map[string]bool {
	if o.owners[manager] == nil {
		o.owners[manager] = map[string]bool{}
	}
	return o.owners[manager]
}

func (o *fieldOwners) others(manager, key string) bool {
	for other, keys := range o.owners {
		if other != manager && keys[key] {
			return true
		}
	}
	return false
}

// apply merges a configuration and returns false for a conflict, which changes nothing.
func (o *fieldOwners) apply(manager string, config map[string]string, force bool) bool {
	merged := gomaps.Clone(o.data)
	for key := range o.own(manager) {
		if _, still := config[key]; !still && !o.others(manager, key) {
			delete(merged, key)
		}
	}
	for key, value := range config {
		if was, had := o.data[key]; (!had || was != value) && o.others(manager, key) && !force {
			return false
		}
		merged[key] = value
	}
	o.set(manager, merged)
	keys := map[string]bool{}
	for key := range config {
		keys[key] = true
	}
	o.owners[manager] = keys
	return true
}

func (o *fieldOwners) String() string {
	var lines []string
	for manager, keys := range o.owners {
		if len(keys) > 0 {
			lines = append(lines, fmt.Sprint(manager, slices.Sorted(gomaps.Keys(keys))))
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(o.data, lines)
}

func TestManagedFieldsFollowTheModel(t *testing.T) {
	for seed := range soak.Rounds(40) {
		synctest.Test(t, func(t *testing.T) { managedFieldsModel(t, uint64(seed)) })
	}
}

func managedFieldsModel(t *testing.T, seed uint64) {
	s := apiserver.Start(t, apiserver.Options{})
	random := rand.New(rand.NewPCG(seed, 1))
	// Without any data, an object could lose its last manager, and would no longer be tracked.
	data := func() map[string]string {
		out := map[string]string{}
		for _, key := range []string{"a", "b", "c", "d"} {
			if key == "a" || random.IntN(2) == 0 {
				out[key] = fmt.Sprint(random.IntN(3))
			}
		}
		return out
	}
	body := func(data map[string]string) string {
		raw, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "a"}, "data": data})
		return string(raw)
	}
	var model *fieldOwners
	for step := range 30 {
		manager, want := fmt.Sprint("m", random.IntN(3)), data()
		query := configMaps + "/a?fieldManager=" + manager
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond) // in the bubble
		action, ok := random.IntN(5), true
		if model == nil && action != 0 {
			action = 1
		}
		var a response
		switch action {
		case 0, 1: // apply, or the creation by one of both
			force := random.IntN(2) == 0
			if model == nil {
				model = &fieldOwners{map[string]string{}, map[string]map[string]bool{}}
				if action == 1 {
					model.set(manager+"/Update", want)
					a = do(t, s, http.MethodPost, configMaps+"?fieldManager="+manager, body(want))
					break
				}
			}
			ok = model.apply(manager+"/Apply", want, force)
			a = do(t, s, http.MethodPatch, fmt.Sprint(query, "&force=", force), body(want), "Content-Type", applyPatch)
		case 2:
			model.set(manager+"/Update", want)
			a = do(t, s, http.MethodPut, query, body(want))
		case 3:
			patch := map[string]any{}
			next := gomaps.Clone(model.data)
			for key, value := range want {
				if key == "a" || random.IntN(2) == 0 {
					next[key], patch[key] = value, value
				} else {
					patch[key] = nil
					delete(next, key)
				}
			}
			raw, _ := json.Marshal(map[string]any{"data": patch})
			model.set(manager+"/Update", next)
			a = do(t, s, http.MethodPatch, query, string(raw), "Content-Type", mergePatch)
		case 4: // nothing changes
			a = do(t, s, http.MethodPut, query, body(model.data))
		}
		if ok != (a.code != http.StatusConflict) || a.code > http.StatusConflict {
			t.Fatalf("seed %d, step %d: %d %s\nmodel: %v", seed, step, a.code, a.raw, model)
		}
		a = get(t, s, configMaps+"/a")
		got := fieldOwners{map[string]string{}, map[string]map[string]bool{}}
		var obj struct{ Data map[string]string }
		_ = json.Unmarshal([]byte(a.raw), &obj)
		gomaps.Copy(got.data, obj.Data)
		for manager, fields := range owners(t, a) {
			var tree struct {
				Data map[string]any `json:"f:data"`
			}
			_ = json.Unmarshal([]byte(fields), &tree)
			for key := range tree.Data {
				if name, leaf := strings.CutPrefix(key, "f:"); leaf {
					got.own(manager)[name] = true
				}
			}
		}
		if got.String() != model.String() {
			t.Fatalf("seed %d, step %d: got %v\nwant %v\n%s", seed, step, &got, model, a.raw)
		}
	}
}
