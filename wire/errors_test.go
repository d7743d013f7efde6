package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// getPod gets a pod and returns the error for the given response.
func getPod(t testing.TB, code int, body string, headers ...string) error {
	t.Helper()
	c := inMemory(t, Options{Retry: Retry{Max: -1}}, func(r *http.Request) (*http.Response, error) {
		return wiretest.Response(r, code, body, headers...), nil
	})
	_, err := c.Request(VerbGet).Resource(podResource).Key(webKey).Do(t.Context())
	if err == nil {
		t.Fatalf("an answer of %d is no error", code)
	}
	return err
}

func TestAnErrorResponseIsAnAPIStatus(t *testing.T) {
	gr := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err *apierrors.StatusError
		is  func(error) bool
	}{
		"not found":   {apierrors.NewNotFound(gr, "web"), apierrors.IsNotFound},
		"forbidden":   {apierrors.NewForbidden(gr, "web", errors.New("no")), apierrors.IsForbidden},
		"conflict":    {apierrors.NewConflict(gr, "web", errors.New("changed")), apierrors.IsConflict},
		"exists":      {apierrors.NewAlreadyExists(gr, "web"), apierrors.IsAlreadyExists},
		"expired":     {apierrors.NewResourceExpired("too old"), apierrors.IsResourceExpired},
		"gone":        {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone, Message: "gone"}}, apierrors.IsGone},
		"too many":    {apierrors.NewTooManyRequests("slow down", 7), apierrors.IsTooManyRequests},
		"timeout":     {apierrors.NewTimeoutError("late", 7), apierrors.IsTimeout},
		"invalid":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), apierrors.IsInvalid},
		"internal":    {apierrors.NewInternalError(errors.New("oh")), apierrors.IsInternalError},
		"unavailable": {apierrors.NewServiceUnavailable("closed"), apierrors.IsServiceUnavailable},
	} {
		status := c.err.Status()
		status.Kind, status.APIVersion = "Status", "v1"
		asJSON := wiretest.Must(json.Marshal(status))(t)
		asProtobuf := wiretest.Must(runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), &status))(t)
		for encoding, body := range map[string][]byte{"application/json": asJSON, "application/vnd.kubernetes.protobuf": asProtobuf} {
			err := getPod(t, int(status.Code), string(body), "Content-Type", encoding)
			if !c.is(err) || !c.is(fmt.Errorf("wrapped: %w", err)) {
				t.Errorf("%s as %s: not recognised: %v", name, encoding, err)
			}
			var status *apierrors.StatusError
			if !errors.As(err, &status) || status.ErrStatus.Message != c.err.ErrStatus.Message {
				t.Errorf("%s as %s: no StatusError in %v", name, encoding, err)
			}
			var refused *Error
			if !errors.As(err, &refused) {
				t.Fatalf("%s as %s is a %T", name, encoding, err)
			}
			if refused.Verb != "get" || refused.Key != webKey || refused.Resource != podResource || refused.Code != int(c.err.ErrStatus.Code) || refused.Attempts != 1 {
				t.Errorf("%s as %s: kept %+v", name, encoding, refused)
			}
			var want time.Duration
			if d := c.err.ErrStatus.Details; d != nil {
				want = time.Duration(d.RetryAfterSeconds) * time.Second
			}
			if refused.RetryAfter != want {
				t.Errorf("%s as %s: RetryAfter is %v, want %v", name, encoding, refused.RetryAfter, want)
			}
			if !strings.HasPrefix(err.Error(), "get pods shop/web: ") {
				t.Errorf("%s as %s: the text is %q", name, encoding, err)
			}
		}
	}
}

// klog prefers String over Error, and the embedded Call has a String.
func TestErrorAndStringReturnTheSameText(t *testing.T) {
	refused := getPod(t, http.StatusNotFound, "nothing here")
	for _, err := range []error{refused, &TransportError{Call: Call{Verb: "watch", Resource: podResource}, Err: errors.New("connection reset")}} {
		if s, ok := err.(fmt.Stringer); ok && s.String() != err.Error() {
			t.Errorf("as text %q, as an error %q", s, err)
		}
	}
}

func TestRetryAfterComesFromTheHeaderFirst(t *testing.T) {
	for header, want := range map[string]time.Duration{"9": 9 * time.Second, "-3": 0, "soon": 3 * time.Second, "": 3 * time.Second, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		body := `{"kind":"Status","apiVersion":"v1","code":429,"details":{"retryAfterSeconds":3}}`
		var refused *Error
		if err := getPod(t, 429, body, "Retry-After", header); !errors.As(err, &refused) || refused.RetryAfter != want {
			t.Errorf("%q: %v, want %v", header, refused.RetryAfter, want)
		}
	}
	var refused *Error
	if err := getPod(t, 503, "closed", "Retry-After", "4"); !errors.As(err, &refused) || refused.RetryAfter != 4*time.Second {
		t.Errorf("without a Status: %v", err)
	}
	if s, ok := apierrors.SuggestsClientDelay(refused); !ok || s != 4 {
		t.Errorf("apimachinery reads %d, %v", s, ok)
	}
}

func TestAResponseThatIsNotAStatusIsReadable(t *testing.T) {
	for _, c := range []struct {
		name              string
		code              int
		contentType, body string
		want, not         string
		is                func(error) bool
	}{
		{"a proxy's page", 502, "text/html; charset=utf-8",
			"<html><head><title>502 Bad Gateway</title><script>var x = 1</script></head><body><h1>Oops</h1></body></html>",
			`the server returned 502 Bad Gateway with an HTML page, probably from a proxy; check the server's address: "502 Bad Gateway"`, "<", apierrors.IsInternalError},
		{"a page without a title", 403, "text/html", "<html><style>p{}</style><!-- hi --><p>Log <b>in</b>\n first</p></html>", `"Log in first"`, "p{}", apierrors.IsForbidden},
		{"plain text", 404, "text/plain", "404 page not found\n", `get pods shop/web: the server returned 404 Not Found: "404 page not found"`, "", apierrors.IsNotFound},
		{"nothing", 503, "", "", "the server returned 503 Service Unavailable", ":  ", apierrors.IsServiceUnavailable},
		{"other JSON", 401, "application/json", `{"error":"login"}`, `{\"error\":\"login\"}`, "", apierrors.IsUnauthorized},
		{"binary", 500, "application/octet-stream", "a\x00\x01\xff\xfeb\x1b[31m", "a", "\x1b", apierrors.IsInternalError},
		{"a Status that is cut off", 500, "application/json", `{"kind":"Status","apiVersion":"v1","message":"x`, "Internal Server Error", "", apierrors.IsInternalError},
		{"protobuf that is none", 500, "application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff", "Internal Server Error", "", apierrors.IsInternalError},
		{"an unknown code", 599, "", "", "the server returned 599", "", apierrors.IsInternalError},
	} {
		err := getPod(t, c.code, c.body, "Content-Type", c.contentType)
		if !strings.Contains(err.Error(), c.want) || (c.not != "" && strings.Contains(err.Error(), c.not)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q in it and not %q", c.name, err, c.want, c.not)
		}
		if !c.is(err) || !apierrors.IsUnexpectedServerError(err) {
			t.Errorf("%s: not recognised: %v", c.name, err)
		}
	}
}

func TestErrorTextsAreShort(t *testing.T) {
	for _, contentType := range []string{"text/html", "text/plain", "application/json"} {
		err := getPod(t, 500, strings.Repeat("<p>blah é</p>", 1<<20), "Content-Type", contentType)
		if len(err.Error()) > 600 || !utf8.ValidString(err.Error()) || !strings.Contains(err.Error(), "…") {
			t.Errorf("%s: %d bytes: %.700s", contentType, len(err.Error()), err)
		}
	}
}

func TestCallString(t *testing.T) {
	deployments := object.Resource{Group: "apps", Version: "v1", Resource: "deployments"}
	for want, c := range map[string]Call{
		"get pods shop/web":       {Verb: "get", Resource: podResource, Key: webKey},
		"get pods/log shop/web":   {Verb: "get", Resource: podResource, Key: webKey, Subresource: "log"},
		"list pods":               {Verb: "list", Resource: podResource},
		"list pods in shop":       {Verb: "list", Resource: podResource, Key: object.Key{Namespace: "shop"}},
		"update deployments.apps": {Verb: "update", Resource: deployments},
		"GET /healthz":            {Verb: "GET", Path: "/healthz"},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

const (
	jwt    = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLXBhcnQ"
	opaque = "Zm9vYmFyLXNlY3JldC10b2tlbg"
)

func TestCredentialsAreRedacted(t *testing.T) {
	for _, text := range []string{
		"Authorization: Bearer " + opaque,
		"authorization: Basic " + opaque + "==",
		`{"Authorization":["Bearer ` + opaque + `"]}`,
		"header Authorization=" + opaque,
		"sent bearer " + opaque + " to",
		"token " + jwt + " is expired",
		"invalid bearer token, " + jwt,
		`Get "https://server/api?access_token=` + opaque + `&x=y": EOF`,
		`Get "https://jane:` + opaque + `@server/api": EOF`,
		"https://server/login?code=" + opaque,
		"client_secret=" + opaque + "&grant_type=password",
		`{"id_token": "` + opaque + `"}`,
		`{"password":"` + opaque + `"}`,
		"token: 7" + opaque,
		"the password: 7" + opaque + ", is wrong",
	} {
		got := redact(text)
		if strings.Contains(got, opaque) || strings.Contains(got, "c2lnbmF0dXJl") || !strings.Contains(got, redacted) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestOrdinaryTextsAreNotRedacted(t *testing.T) {
	for _, text := range []string{
		`secrets "web-token" not found`,
		`pods is forbidden: User "system:serviceaccount:shop:web" cannot list resource "pods" in API group "" at the cluster scope`,
		`Secret "x" is invalid: data[token]: Required value`,
		"basic authentication is not supported",
		"bearer token expected",
		"invalid token: expired",
		"dial tcp 10.0.0.1:443: connect: connection refused",
		`failed calling webhook "v.example.com": Post "https://hook.shop.svc:443/validate": context deadline exceeded`,
		"image registry.example/team/app:v1@sha256:0123 not found",
	} {
		if got := redact(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestErrorsHaveNoCredentials(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	leaky := map[string]wiretest.RoundTrip{
		"a URL error of the transport": func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("strange")}
		},
		"a wrapped URL error": func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("getting credentials: %w", &url.Error{Op: "Post", URL: "https://idp/token?client_secret=" + secret, Err: errors.New("strange")})
		},
		"a proxy that quotes the request": func(r *http.Request) (*http.Response, error) {
			return wiretest.Response(r, 400, "bad header: Authorization: Bearer "+secret), nil
		},
		"a Status that quotes the token": func(r *http.Request) (*http.Response, error) {
			return wiretest.Response(r, 401, `{"kind":"Status","apiVersion":"v1","code":401,"reason":"Unauthorized","message":"bearer `+secret+` is unknown"}`), nil
		},
		"a redirect": func(r *http.Request) (*http.Response, error) {
			return wiretest.Response(r, 302, "", "Location", "https://jane:"+secret+"@elsewhere/?token="+secret), nil
		},
	}
	for name, f := range leaky {
		base := &url.URL{Scheme: "https", Host: "server", User: url.UserPassword("jane", secret)}
		c := wiretest.Must(NewWithTransport(base, f, Options{}))(t)
		_, err := c.Request(VerbGet).Resource(podResource).Key(webKey).Param("token", secret).Header("Authorization", "Bearer "+secret).Do(t.Context())
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e.Error()), secret) {
				t.Errorf("%s: the error shows the secret: %v", name, e)
			}
		}
		var status apierrors.APIStatus
		if errors.As(err, &status) && strings.Contains(fmt.Sprint(status.Status()), secret) {
			t.Errorf("%s: the status shows the secret: %v", name, status.Status())
		}
	}
}

func TestARedactedErrorKeepsItsCause(t *testing.T) {
	err := (&secrets{}).hide(fmt.Errorf("token=%s: %w", opaque, reset))
	if strings.Contains(err.Error(), opaque) || !errors.Is(err, reset) || outcomeOf(err) != lost {
		t.Errorf("%v, %v", err, outcomeOf(err))
	}
	if (&secrets{}).hide(nil) != nil {
		t.Error("no error becomes one")
	}
}

func FuzzErrorBody(f *testing.F) {
	c := inMemory(f, Options{}, nil)
	f.Add(500, "text/html", []byte("<title>x</title>"))
	f.Add(429, "application/json", []byte(tooMany))
	f.Add(404, "application/vnd.kubernetes.protobuf", []byte("k8s\x00\x0a\x02v1"))
	f.Fuzz(func(t *testing.T, code int, contentType string, body []byte) {
		if code < 300 || code > 999 {
			t.Skip()
		}
		resp := &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Request: &http.Request{Method: "GET", URL: &url.URL{}}}
		err := c.errorResponse(Call{Verb: "get"}, 1, resp, body)
		if err.Error() == "" || err.Code != code {
			t.Errorf("%d: %q", err.Code, err)
		}
	})
}

func TestRedactIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`((bearer|token=|://|@|\?|authorization: |"|x|eyJ|\.) ?){1,8}`)).Draw(t, "text")
		once := redact(s)
		if twice := redact(once); twice != once {
			t.Fatalf("%q becomes %q, then %q", s, once, twice)
		}
	})
}
