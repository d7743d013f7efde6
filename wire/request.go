package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/tarnproject/tarn/object"
)

// Verb is a verb of the Kubernetes API. For requests by path, it may also be an HTTP method.
type Verb string

// The verbs of the API.
const (
	VerbGet              Verb = "get"
	VerbList             Verb = "list"
	VerbWatch            Verb = "watch"
	VerbCreate           Verb = "create"
	VerbUpdate           Verb = "update"
	VerbPatch            Verb = "patch"
	VerbDelete           Verb = "delete"
	VerbDeleteCollection Verb = "deletecollection"
)

// method returns the verb's HTTP method.
func (v Verb) method() string {
	switch v {
	case VerbGet, VerbList, VerbWatch:
		return http.MethodGet
	case VerbCreate:
		return http.MethodPost
	case VerbUpdate:
		return http.MethodPut
	case VerbPatch:
		return http.MethodPatch
	case VerbDelete, VerbDeleteCollection:
		return http.MethodDelete
	}
	return strings.ToUpper(string(v))
}

// Request is one request. Its methods build it; Do or Stream send it and report the first
// mistake in it. A Request may be sent more than once. It is not safe for concurrent use.
type Request struct {
	client      *Client
	verb        Verb
	resource    object.Resource
	key         object.Key
	subresource string
	path        string // of a request by path
	params      url.Values
	header      http.Header
	body        []byte
	idempotent  bool
	retry       Retry
	timeout     time.Duration
	err         error // the first mistake
}

// Request returns a request with a verb of the API or an HTTP method. It needs a Resource or an
// AbsPath.
func (c *Client) Request(verb Verb) *Request {
	r := &Request{
		client:  c,
		verb:    verb,
		params:  url.Values{},
		header:  http.Header{},
		retry:   c.opts.Retry,
		timeout: c.opts.Timeout,
	}
	switch m := verb.method(); m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut:
		r.idempotent = true
	case http.MethodPost, http.MethodPatch, http.MethodDelete:
	default:
		r.fail("%q is neither a verb nor an HTTP method", string(verb))
	}
	return r
}

func (r *Request) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// Resource sets the resource.
func (r *Request) Resource(res object.Resource) *Request {
	r.resource = res
	return r
}

// Key sets the object's namespace and name. A list or a watch without a namespace covers all of
// them.
func (r *Request) Key(key object.Key) *Request {
	r.key = key
	return r
}

// Subresource sets the subresource, such as "status". It may have slashes, as in
// "proxy/healthz".
func (r *Request) Subresource(subresource string) *Request {
	r.subresource = subresource
	return r
}

// AbsPath sets the path of the request, instead of a resource. It starts with a slash, is not
// escaped, and has no query; see Param.
func (r *Request) AbsPath(path string) *Request {
	if !strings.HasPrefix(path, "/") {
		r.fail("the path %q does not start with a slash", path)
	}
	r.path = path
	return r
}

// Param adds a query parameter. An empty value is omitted.
func (r *Request) Param(name, value string) *Request {
	if value != "" {
		r.params.Add(name, value)
	}
	return r
}

// Params adds all of the query parameters.
func (r *Request) Params(query url.Values) *Request {
	for name, values := range query {
		for _, v := range values {
			r.Param(name, v)
		}
	}
	return r
}

// Accept sets the content types that the response may have, best first.
func (r *Request) Accept(types string) *Request { return r.Header("Accept", types) }

// Header sets a header.
func (r *Request) Header(name, value string) *Request {
	r.header.Set(name, value)
	return r
}

// Body sets the request body and its content type. The caller must not change the bytes until
// Do or Stream has returned.
func (r *Request) Body(contentType string, data []byte) *Request {
	r.body = data
	return r.Header("Content-Type", contentType)
}

// Idempotent allows a retry after a lost connection, when the server may have processed the
// request. Reads and updates are always idempotent.
func (r *Request) Idempotent() *Request {
	r.idempotent = true
	return r
}

// Retries sets the maximum number of retries. Defaults to the client's [Retry].
func (r *Request) Retries(n int) *Request {
	r.retry.Max = n
	if n <= 0 {
		r.retry.Max = -1
	}
	return r
}

// Timeout limits one attempt of this request; for a stream, the time until its headers arrive. 0
// means no limit. Defaults to the client's.
func (r *Request) Timeout(d time.Duration) *Request {
	r.timeout = d
	return r
}

// Call returns the name of the request in errors.
func (r *Request) Call() Call {
	return Call{Verb: string(r.verb), Resource: r.resource, Subresource: r.subresource, Key: r.key, Path: r.path}
}

// URL returns the URL of the request, or the first mistake in it.
func (r *Request) URL() (*url.URL, error) {
	if r.err != nil {
		return nil, r.err
	}
	path := r.path
	if path == "" {
		var err error
		if path, err = r.resourcePath(); err != nil {
			return nil, err
		}
	} else if r.resource != (object.Resource{}) || !r.key.IsZero() || r.subresource != "" {
		return nil, errors.New("the request has both a path and a resource; use one")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return nil, fmt.Errorf("the path %q has a segment %q", path, segment)
		}
	}
	u := *r.client.base
	if u.RawPath != "" { // the path of the server URL has escaped slashes
		u.RawPath += (&url.URL{Path: path}).EscapedPath()
	}
	u.Path += path
	u.RawQuery = r.params.Encode()
	return &u, nil
}

// resourcePath returns the path of resource, namespace, name and subresource.
func (r *Request) resourcePath() (string, error) {
	res := r.resource
	if res.Resource == "" || res.Version == "" {
		return "", errors.New("the request has neither a path nor a resource with a version")
	}
	if err := r.checkKey(); err != nil {
		return "", err
	}
	var b strings.Builder
	if res.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + res.Group + "/")
	}
	b.WriteString(res.Version)
	if r.key.Namespace != "" {
		b.WriteString("/namespaces/" + r.key.Namespace)
	}
	b.WriteString("/" + res.Resource)
	if r.key.Name != "" {
		b.WriteString("/" + r.key.Name)
	}
	if r.subresource != "" {
		b.WriteString("/" + r.subresource)
	}
	return b.String(), nil
}

// checkKey finds mistakes for which the server would return a misleading 404 or 405, or process
// another request than the intended one.
func (r *Request) checkKey() error {
	res := r.resource
	if res.Namespaced {
		switch r.verb {
		case VerbList, VerbWatch:
		default:
			if r.key.Namespace == "" {
				return fmt.Errorf("%s are namespaced; set the namespace", res)
			}
		}
	} else if r.key.Namespace != "" {
		return fmt.Errorf("%s are cluster-scoped; remove the namespace %q", res, r.key.Namespace)
	}
	switch r.verb {
	case VerbGet, VerbUpdate, VerbPatch, VerbDelete:
		if r.key.Name == "" {
			return errNoName
		}
	case VerbDeleteCollection:
		if r.key.Name != "" {
			return errors.New("deletecollection takes no name; use delete for one object")
		}
	}
	if r.subresource != "" && r.key.Name == "" {
		return fmt.Errorf("subresource %s: %w", r.subresource, errNoName)
	}
	for _, s := range []string{r.key.Namespace, r.key.Name, res.Group, res.Version, res.Resource} {
		if problems := content.IsPathSegmentName(s); len(problems) > 0 {
			return fmt.Errorf("%q cannot be part of a path: it %s", s, strings.Join(problems, "; it "))
		}
	}
	return nil
}

// errNoName is the error of a request that lacks the object's name.
var errNoName = errors.New("the name of the object is missing")

// Do sends the request, with retries, and reads the response. The error is an [*Error] for an
// error response and a [*TransportError] if there was no usable response.
func (r *Request) Do(ctx context.Context) (*Result, error) {
	res := &Result{call: r.Call(), secrets: r.client.secrets}
	err := r.send(ctx, false, func(resp *http.Response) error {
		defer resp.Body.Close()
		data, err := readBounded(resp.Body, resp.ContentLength, r.client.opts.MaxBody)
		res.Code, res.Header, res.data = resp.StatusCode, resp.Header, data
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Stream sends the request, with retries, and returns the response when its headers have
// arrived. The body is decompressed. The caller must close it, which ends the request. The
// errors are those of Do.
func (r *Request) Stream(ctx context.Context) (*http.Response, error) {
	var out *http.Response
	err := r.send(ctx, true, func(resp *http.Response) error {
		out = resp
		return nil
	})
	return out, err
}

// readBounded reads a body of at most limit bytes.
func readBounded(body io.Reader, length, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	if length > 0 {
		buf.Grow(int(min(length, limit, 1<<20)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrBodyTooLarge, limit)
	}
	return buf.Bytes(), nil
}
