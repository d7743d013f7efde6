package stream

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestListReturnsOnePage(t *testing.T) {
	var last *http.Request
	c := inMemory(t, func(r *http.Request) (*http.Response, error) {
		last = r
		return wiretest.Response(r, 200, string(wireBytes(wire.Protobuf, podList(3))), "Content-Type", wiretest.Protobuf), nil
	})
	pods, page, err := List(t.Context(), wire.For(c, wire.MustOf[*corev1.Pod]()), object.ListOptions{
		Selection: object.Selection{Namespace: "shop", Labels: "app=web"},
	})
	if err != nil || page.Version != "90000" || len(pods) != 3 || !cmp.Equal(pods[2], pod(2)) {
		t.Errorf("listed %v, %+v, %v", pods, page, err)
	}
	if last.URL.Path != "/api/v1/namespaces/shop/pods" || last.URL.Query().Get("labelSelector") != "app=web" {
		t.Errorf("requested %s", last.URL)
	}
	if &pods[0].Spec.Containers[0] == &pods[1].Spec.Containers[0] {
		t.Error("two objects share a container")
	}
}

func TestWatchReturnsEvents(t *testing.T) {
	c := bodyClient(t, wiretest.JSON, func() io.Reader { return strings.NewReader(string(encodeEvent(wire.JSON, "ADDED", pod(1)))) })
	st, err := Watch(t.Context(), wire.For(c, podsAs(wire.JSON)), object.WatchOptions{Version: "7"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	events, err := st.Next()
	if err != nil || len(events) != 1 || events[0].Kind != object.Added || !cmp.Equal(events[0].Item.Object, pod(1)) {
		t.Errorf("received %v, %v", events, err)
	}
}

func TestListAndWatchRejectAnEmptyResource(t *testing.T) {
	api := wire.For(inMemory(t, nil), wire.Resource[*corev1.Pod]{})
	if _, _, err := List(t.Context(), api, object.ListOptions{}); err == nil {
		t.Error("List accepted it")
	}
	if _, err := Watch(t.Context(), api, object.WatchOptions{}); err == nil {
		t.Error("Watch accepted it")
	}
}

func TestAnUndecodableObjectFailsAList(t *testing.T) {
	body := `{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"namespace":"shop","name":"web"},"spec":{"nodeName":7}}]}`
	c := bodyClient(t, wiretest.JSON, func() io.Reader { return strings.NewReader(body) })
	_, _, err := List(t.Context(), wire.For(c, wire.MustOf[*corev1.Pod]()), object.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "list pods shop/web") {
		t.Errorf("the error is %v", err)
	}
}

// List retries as the client does; a Source leaves retries to the reflector.
func TestListRetriesAndASourceDoesNot(t *testing.T) {
	attempts := 0
	c := inMemory(t, func(r *http.Request) (*http.Response, error) {
		if attempts++; attempts%2 == 1 {
			return wiretest.Response(r, 429, "", "Retry-After", "0.001"), io.ErrUnexpectedEOF
		}
		return wiretest.Response(r, 200, string(wireBytes(wire.JSON, podList(1))), "Content-Type", wiretest.JSON), nil
	})
	if _, _, err := List(t.Context(), wire.For(c, podsAs(wire.JSON)), object.ListOptions{}); err != nil || attempts != 2 {
		t.Errorf("List: %d attempts, %v", attempts, err)
	}
	attempts = 0
	if _, _, err := collect(sourceOf(t, c, podsAs(wire.JSON), Options{}), nil); !errors.Is(err, io.ErrUnexpectedEOF) || attempts != 1 {
		t.Errorf("Source.List: %d attempts, %v", attempts, err)
	}
}

func TestErrorsOfStreamsHaveNoCredentials(t *testing.T) {
	const secret = "kiwi"
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"rejected kiwi"}`
	for name, c := range map[string]struct{ list, watch string }{
		"Status": {status, `{"type":"ERROR","object":` + status + `}`},
		"kind":   {`{"kind":"rejected kiwi","apiVersion":"v1","items":[]}`, `{"type":"ADDED","object":{"kind":"rejected kiwi","apiVersion":"v1"}}`},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", wiretest.JSON)
			if r.URL.Query().Has("watch") {
				io.WriteString(w, c.watch)
			} else {
				io.WriteString(w, c.list)
			}
		}))
		client := wiretest.Must(wire.New(&rest.Config{Host: s.URL, BearerToken: secret}, wire.Options{}))(t)
		src := sourceOf(t, client, podsAs(wire.JSON), Options{})
		_, _, listed := collect(src, nil)
		st := wiretest.Must(src.Watch(t.Context(), object.WatchOptions{}, nil))(t)
		events, watched := st.Next()
		if len(events) > 0 {
			watched = events[0].Err
		}
		st.Close()
		client.CloseIdleConnections()
		s.Close()
		for _, err := range []error{listed, watched} {
			if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "rejected <redacted>") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
