package wire_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

type answering string

func (body answering) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(body))), Request: req,
	}, nil
}

func TestDeleteReturningUIDReadsStatusAndObject(t *testing.T) {
	for body, want := range map[string]object.UID{
		`{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"web","uid":"u1"}}`: "u1",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u2"}}`:                      "u2",
		`{"kind":"Status","apiVersion":"v1","status":"Success"}`:                                     "",
		`not JSON`: "",
	} {
		c, err := wire.NewWithTransport(&url.URL{Scheme: "http", Host: "example.com"}, answering(body), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		uid, err := wire.For(c, wire.MustOf[*corev1.Pod]()).DeleteReturningUID(t.Context(), object.Key{Namespace: "shop", Name: "web"}, wire.DeleteOptions{})
		if uid != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", body, uid, err, want)
		}
	}
}
