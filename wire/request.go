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

// Verb is what a request does, in the API's words. Any HTTP method is a verb too,
// for requests by path.
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

// Method returns the verb's HTTP method.
func (v Verb) Method() string {
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

// Request is one request, built step by step and sent by Do or Stream. A mistake in
// a step is reported when the request is sent. A Request is used by one goroutine;
// it may be sent more than once.
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
	idle        time.Duration
	err         error // the first mistake
}

// Request begins a request with a verb of the API or an HTTP method. Resource or
// AbsPath has to follow.
func (c *Client) Request(verb Verb) *Request {
	r := &Request{
		client:  c,
		verb:    verb,
		params:  url.Values{},
		header:  http.Header{},
		retry:   c.opts.Retry,
		timeout: c.opts.Timeout,
	}
	switch m := verb.Method(); m {
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

// Resource says of which resource.
func (r *Request) Resource(res object.Resource) *Request {
	r.resource = res
	return r
}

// Namespace says in which namespace. Without it a list and a watch go to all
// namespaces; no other verb does.
func (r *Request) Namespace(namespace string) *Request {
	r.key.Namespace = namespace
	return r
}

// Name says which object.
func (r *Request) Name(name string) *Request {
	r.key.Name = name
	return r
}

// Key says which object, with its namespace.
func (r *Request) Key(key object.Key) *Request {
	r.key = key
	return r
}

// Subresource says which part of the object, such as "status"; slashes lead further
// down, as in "proxy/healthz".
func (r *Request) Subresource(subresource string) *Request {
	r.subresource = subresource
	return r
}

// AbsPath asks for a path of the server, in the place of a resource. It is not
// escaped, starts with a slash, and has no query; see Param.
func (r *Request) AbsPath(path string) *Request {
	if !strings.HasPrefix(path, "/") {
		r.fail("the path %q does not start with a slash", path)
	}
	r.path = path
	return r
}

// Param adds a parameter to the query. An empty value is left out.
func (r *Request) Param(name, value string) *Request {
	if value != "" {
		r.params.Add(name, value)
	}
	return r
}

// Accept says which content types the answer may have, best first.
func (r *Request) Accept(types string) *Request { return r.Header("Accept", types) }

// Header sets a header.
func (r *Request) Header(name, value string) *Request {
	r.header.Set(name, value)
	return r
}

// Body is what to send, with its content type. The bytes must not change until the
// request has been answered.
func (r *Request) Body(contentType string, data []byte) *Request {
	r.body = data
	return r.Header("Content-Type", contentType)
}

// Idempotent says that the request may be carried out twice without harm, so that
// it is sent again when its connection breaks. Reads and updates are so anyway.
func (r *Request) Idempotent() *Request {
	r.idempotent = true
	return r
}

// Retries says how often this request is sent again at most; 0 is never. It
// defaults to the client's [Retry].
func (r *Request) Retries(n int) *Request {
	r.retry.Max = n
	if n <= 0 {
		r.retry.Max = -1
	}
	return r
}

// Timeout bounds one attempt of this request, or for a stream the time until its
// headers arrive; 0 is no bound. It defaults to the client's.
func (r *Request) Timeout(d time.Duration) *Request {
	r.timeout = d
	return r
}

// Idle ends the body of the answer with object.ErrIdle when nothing of it arrives
// for so long. It defaults to no bound.
func (r *Request) Idle(d time.Duration) *Request {
	r.idle = d
	return r
}

// Call returns how errors name the request.
func (r *Request) Call() Call {
	return Call{Verb: string(r.verb), Resource: r.resource, Subresource: r.subresource, Key: r.key, Path: r.path}
}

// URL returns where the request goes, or the first mistake in how it was built.
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
		return nil, errors.New("a request goes either to a path or to a resource, not to both")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return nil, fmt.Errorf("the path %q leads out of itself", path)
		}
	}
	u := *r.client.base
	if u.RawPath != "" { // the server's own path has escaped slashes
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
		return "", errors.New("the request has neither a resource with its version nor a path")
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

// checkKey finds the mistakes that the server would answer with a baffling 404 or
// 405, or worse, with something else than was meant.
func (r *Request) checkKey() error {
	res := r.resource
	if res.Namespaced {
		switch r.verb {
		case VerbList, VerbWatch:
		default:
			if r.key.Namespace == "" {
				return fmt.Errorf("%s live in namespaces; say in which", res)
			}
		}
	} else if r.key.Namespace != "" {
		return fmt.Errorf("%s do not live in namespaces; leave %q out", res, r.key.Namespace)
	}
	switch r.verb {
	case VerbGet, VerbUpdate, VerbPatch, VerbDelete:
		if r.key.Name == "" {
			return errors.New("the name of the object is missing")
		}
	case VerbDeleteCollection:
		if r.key.Name != "" {
			return errors.New("a collection has no name; use the verb delete for one object")
		}
	}
	if r.subresource != "" && r.key.Name == "" {
		return fmt.Errorf("the subresource %s needs the name of an object", r.subresource)
	}
	for _, s := range []string{r.key.Namespace, r.key.Name, res.Group, res.Version, res.Resource} {
		if problems := content.IsPathSegmentName(s); len(problems) > 0 {
			return fmt.Errorf("%q cannot be part of a path: it %s", s, strings.Join(problems, "; it "))
		}
	}
	return nil
}

// Do sends the request, again where that is allowed and of use, and reads the
// answer. The error is an [*Error] when the server refused and a [*TransportError]
// when there was no answer.
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

// Stream sends the request, again where that is allowed and of use, and returns the
// answer once its headers are there. Its body is decompressed and has to be closed,
// which ends everything that belongs to the request. The errors are those of Do.
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
