package wire

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// seen is a request as the server received it.
type seen struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
}

// decode decodes the body as the API server does.
func (a *seen) decode(t *testing.T) runtime.Object {
	t.Helper()
	obj, _, err := serializer.NewCodecFactory(scheme.Scheme).UniversalDeserializer().Decode(a.body, nil, nil)
	if err != nil {
		t.Fatalf("the server cannot read the body: %v", err)
	}
	return obj
}

// oneResponse starts a real server that sends the same response to every request, and records the
// last request.
func oneResponse(t *testing.T, contentType, body string) (*Client, *seen) {
	t.Helper()
	last := &seen{}
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		*last = seen{r.Method, r.URL.Path, r.URL.Query(), r.Header, data}
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	})
	return c, last
}

func webPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "7"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}},
	}
}

func kindOf(obj *corev1.Pod) *corev1.Pod {
	obj = obj.DeepCopy()
	obj.APIVersion, obj.Kind = "v1", "Pod"
	return obj
}

func TestEveryVerbSendsWhatTheServerUnderstands(t *testing.T) {
	for _, e := range []Encoding{Protobuf, JSON} {
		contentType := map[Encoding]string{Protobuf: typeProtobuf, JSON: typeJSON}[e]
		c, last := oneResponse(t, contentType, string(wiretest.Encode(contentType, webPod())))
		pods := For(c, MustOf[*corev1.Pod]().Encoded(e))
		ctx := t.Context()
		write := WriteOptions{FieldManager: "me", DryRun: true, Validation: ValidateStrict}
		written := url.Values{"fieldManager": {"me"}, "dryRun": {"All"}, "fieldValidation": {"Strict"}}
		const path = "/api/v1/namespaces/shop/pods/web"
		for _, v := range []struct {
			name, method, path, contentType string
			query                           url.Values
			body                            bool
			call                            func() (*corev1.Pod, error)
		}{
			{"get", "GET", path, "", nil, false, func() (*corev1.Pod, error) { return pods.Get(ctx, webKey, GetOptions{}) }},
			{"get any", "GET", path, "", url.Values{"resourceVersion": {"0"}}, false, func() (*corev1.Pod, error) { return pods.Get(ctx, webKey, GetOptions{Version: "0"}) }},
			{"create", "POST", "/api/v1/namespaces/shop/pods", contentType, written, true, func() (*corev1.Pod, error) { return pods.Create(ctx, webPod(), write) }},
			{"update", "PUT", path, contentType, written, true, func() (*corev1.Pod, error) { return pods.Update(ctx, webPod(), write) }},
			{"update with its kind", "PUT", path, contentType, nil, true, func() (*corev1.Pod, error) { return pods.Update(ctx, kindOf(webPod()), WriteOptions{}) }},
			{"update status", "PUT", path + "/status", contentType, nil, true, func() (*corev1.Pod, error) { return pods.UpdateStatus(ctx, webPod(), WriteOptions{}) }},
			{"resize", "PUT", path + "/resize", contentType, nil, true, func() (*corev1.Pod, error) {
				return SubresourceOf[*corev1.Pod](pods, "resize").Update(ctx, webKey, webPod(), WriteOptions{})
			}},
			{"JSON patch", "PATCH", path, "application/json-patch+json", written, false, func() (*corev1.Pod, error) { return pods.Patch(ctx, webKey, JSONPatch([]byte(`[]`)), write) }},
			{"merge patch", "PATCH", path, "application/merge-patch+json", nil, false, func() (*corev1.Pod, error) {
				return pods.Patch(ctx, webKey, MergePatch([]byte(`{}`)), WriteOptions{})
			}},
			{"strategic patch", "PATCH", path + "/status", "application/strategic-merge-patch+json", nil, false, func() (*corev1.Pod, error) {
				return pods.Patch(ctx, webKey, StrategicPatch([]byte(`{}`)), WriteOptions{Subresource: "status"})
			}},
			{"apply", "PATCH", path, "application/apply-patch+yaml", url.Values{"fieldManager": {"me"}}, false, func() (*corev1.Pod, error) {
				return pods.Apply(ctx, webKey, map[string]any{}, WriteOptions{FieldManager: "me"})
			}},
			{"apply by force", "PATCH", path + "/status", "application/apply-patch+yaml", url.Values{"fieldManager": {"me"}, "force": {"true"}, "dryRun": {"All"}, "fieldValidation": {"Warn"}}, false, func() (*corev1.Pod, error) {
				return pods.Apply(ctx, webKey, map[string]any{}, WriteOptions{FieldManager: "me", Force: true, DryRun: true, Validation: ValidateWarn, Subresource: "status"})
			}},
		} {
			got, err := v.call()
			if err != nil {
				t.Errorf("%s %s: %v", e, v.name, err)
				continue
			}
			if diff := cmp.Diff(webPod(), got); diff != "" {
				t.Errorf("%s %s: the answer differs:\n%s", e, v.name, diff)
			}
			if v.query == nil {
				v.query = url.Values{}
			}
			if last.method != v.method || last.path != v.path || last.header.Get("Content-Type") != v.contentType || !cmp.Equal(last.query, v.query) {
				t.Errorf("%s %s: sent %s %s %v as %q", e, v.name, last.method, last.path, last.query, last.header.Get("Content-Type"))
			}
			if accept := last.header.Get("Accept"); !strings.HasPrefix(accept, contentType) || !strings.HasSuffix(accept, typeJSON) {
				t.Errorf("%s %s: accepts %q", e, v.name, accept)
			}
			if v.body {
				if diff := cmp.Diff(kindOf(webPod()), last.decode(t)); diff != "" {
					t.Errorf("%s %s: the server reads something else:\n%s", e, v.name, diff)
				}
			}
		}
	}
}

func TestWritingDoesNotChangeTheObject(t *testing.T) {
	c, last := oneResponse(t, typeJSON, `{"apiVersion":"home.example/v1","kind":"Lamp","metadata":{"name":"desk","namespace":"home"},"spec":{"watts":40}}`)
	lamp := &Lamp{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "desk"}, Spec: LampSpec{Watts: 40}}
	got, err := For(c, Custom[*Lamp](lampResource)).Update(t.Context(), lamp, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lamp.Kind != "" || got.Kind != "" || got.Spec.Watts != 40 {
		t.Errorf("sent %+v, got %+v", lamp, got)
	}
	var sent Lamp
	if err := json.Unmarshal(last.body, &sent); err != nil || sent.Kind != "Lamp" || sent.APIVersion != "home.example/v1" || sent.Spec.Watts != 40 {
		t.Errorf("the server got %s", last.body)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "home", "name": "desk"}}}
	back, err := For(c, Unstructured(lampResource)).Create(t.Context(), u, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, changed := u.Object["kind"]; changed || back.GetKind() != "Lamp" {
		t.Errorf("sent %v, got %v", u.Object, back.Object)
	}
	if watts, _, _ := unstructured.NestedInt64(back.Object, "spec", "watts"); watts != 40 {
		t.Errorf("whole numbers are not int64: %#v", back.Object["spec"])
	}
	if !strings.Contains(string(last.body), `"kind":"Lamp"`) || last.path != "/apis/home.example/v1/namespaces/home/lamps" {
		t.Errorf("the server got %s at %s", last.body, last.path)
	}
}

func TestMetadataIsRequestedAndDecodedInEveryFormat(t *testing.T) {
	meta := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"},
	}
	wrapped := wiretest.Must(json.Marshal(meta))(t)
	pb := wiretest.Must(meta.Marshal())(t)
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, Raw: pb}
	for name, answer := range map[string][2]string{
		"protobuf":                       {typeProtobuf, "k8s\x00" + string(wiretest.Must(unknown.Marshal())(t))},
		"JSON":                           {typeJSON, string(wrapped)},
		"whole, from a server of before": {typeJSON, string(wiretest.Encode(typeJSON, webPod()))},
	} {
		c, last := oneResponse(t, answer[0], answer[1])
		pods := For(c, Metadata(podResource))
		got, err := pods.Get(t.Context(), webKey, GetOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Name != "web" || got.UID != "u-1" || got.Kind != "" {
			t.Errorf("%s: got %+v", name, got)
		}
		if want := "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"; last.header.Get("Accept") != want {
			t.Errorf("%s: accepts %q", name, last.header.Get("Accept"))
		}
		if _, err := pods.Patch(t.Context(), webKey, MergePatchOf(map[string]any{"metadata": nil}), WriteOptions{}); err != nil {
			t.Errorf("%s: patch: %v", name, err)
		}
		if _, err := pods.Update(t.Context(), got, WriteOptions{}); err == nil || !strings.Contains(err.Error(), "use Patch") {
			t.Errorf("%s: an update that loses the spec is sent: %v", name, err)
		}
	}
}

func TestInvalidVerbsAreNotSent(t *testing.T) {
	c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s %s was sent", r.Method, r.URL)
		return nil, errors.New("sent")
	})
	ctx := t.Context()
	pods := For(c, MustOf[*corev1.Pod]())
	other := webPod()
	other.APIVersion, other.Kind = "v1", "Node"
	errs := map[string]func() error{
		"is empty":               func() error { _, err := For(c, Resource[*Lamp]{}).Get(ctx, webKey, GetOptions{}); return err },
		"is nil":                 func() error { _, err := pods.Update(ctx, (*corev1.Pod)(nil), WriteOptions{}); return err },
		"Kind=Node":              func() error { _, err := pods.Update(ctx, other, WriteOptions{}); return err },
		"the patch is empty":     func() error { _, err := pods.Patch(ctx, webKey, Patch{}, WriteOptions{}); return err },
		"encode the patch":       func() error { _, err := pods.Patch(ctx, webKey, MergePatchOf(func() {}), WriteOptions{}); return err },
		"needs WriteOptions.Fie": func() error { _, err := pods.Apply(ctx, webKey, map[string]any{}, WriteOptions{}); return err },
		"set the namespace": func() error {
			_, err := pods.Create(ctx, &corev1.Pod{}, WriteOptions{})
			return err
		},
	}
	for want, call := range errs {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestAResponseOfAnotherKindIsAnError(t *testing.T) {
	for name, body := range map[string]string{
		"another kind":         string(wiretest.Encode(typeJSON, &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}})),
		"another, in protobuf": string(wiretest.Encode(typeProtobuf, &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}})),
		"a Status":             `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
		"no kind":              `{"metadata":{}}`,
	} {
		c, _ := oneResponse(t, typeJSON, body)
		if _, err := For(c, MustOf[*corev1.Pod]()).Get(t.Context(), webKey, GetOptions{}); !errors.Is(err, object.ErrWrongKind) || !strings.Contains(err.Error(), "get pods shop/web") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, body := range map[string]string{"no JSON": "<html>", "nothing": "", "half": `{"kind":"Pod"`, "broken envelope": "k8s\x00\xff", "broken object": "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\xff\xff"} {
		c, _ := oneResponse(t, typeJSON, body)
		if _, err := For(c, MustOf[*corev1.Pod]()).Get(t.Context(), webKey, GetOptions{}); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, _ := oneResponse(t, typeJSON, `{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":7}}`)
	if _, err := For(c, MustOf[*corev1.Pod]()).Get(t.Context(), webKey, GetOptions{}); err == nil {
		t.Error("a field of the wrong type is accepted")
	}
	c, _ = oneResponse(t, typeProtobuf, string(wiretest.Encode(typeProtobuf, webPod())))
	if _, err := For(c, Unstructured(podResource)).Get(t.Context(), webKey, GetOptions{}); err == nil || !strings.Contains(err.Error(), "protobuf") {
		t.Errorf("protobuf for an unstructured object: %v", err)
	}
}

func TestJSONFieldNamesAreCaseSensitive(t *testing.T) {
	c, _ := oneResponse(t, typeJSON, `{"apiVersion":"home.example/v1","kind":"Lamp","metadata":{"name":"desk"},"Spec":{"watts":1},"spec":{"watts":40,"WATTS":2}}`)
	lamp, err := For(c, Custom[*Lamp](lampResource)).Get(t.Context(), webKey, GetOptions{})
	if err != nil || lamp.Spec.Watts != 40 {
		t.Errorf("case does not count: %+v, %v", lamp, err)
	}
}

func TestTheErrorOfAVerbNamesTheCall(t *testing.T) {
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"the object has been modified"}`)
	})
	_, err := For(c, MustOf[*corev1.Pod]()).UpdateStatus(t.Context(), webPod(), WriteOptions{})
	if !apierrors.IsConflict(err) || err.Error() != "update pods/status shop/web: the object has been modified" {
		t.Errorf("the error is %v", err)
	}
}

func TestWritesFallBackToJSON(t *testing.T) {
	var types []string
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		types = append(types, r.Header.Get("Content-Type"))
		if types[len(types)-1] != typeJSON {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		w.Write(wiretest.Encode(typeJSON, webPod()))
	})
	pod, err := For(c, MustOf[*corev1.Pod]()).Update(t.Context(), webPod(), WriteOptions{})
	if err != nil || !cmp.Equal(pod, webPod()) || !cmp.Equal(types, []string{typeProtobuf, typeJSON}) {
		t.Errorf("sent %q: %v", types, err)
	}
}

func TestATruncatedSecretIsNotQuoted(t *testing.T) {
	c, _ := oneResponse(t, typeJSON, `{"apiVersion":"v1","kind":"Secret","data":{"key":"aHVudGVyMg=="},"metad`)
	_, err := For(c, MustOf[*corev1.Secret]()).Get(t.Context(), webKey, GetOptions{})
	if !errors.Is(err, object.ErrCorrupt) || strings.Contains(err.Error(), "aHVudGVyMg") {
		t.Errorf("the error is %v", err)
	}
}
