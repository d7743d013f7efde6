package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/oneline"
	"github.com/tarnproject/tarn/object"
)

// Call names a request in errors and logs: the verb and what it applies to.
type Call struct {
	// Verb is the API's verb ("get", "deletecollection") or an HTTP method.
	Verb string
	// Resource is empty for a request by path.
	Resource object.Resource
	// Subresource is empty for a request without one.
	Subresource string
	// Key has an empty name for lists, watches and deletecollection.
	Key object.Key
	// Path is the path of a request by path, without its query.
	Path string
}

// String returns, for example, "get pods/log shop/web".
func (c Call) String() string {
	var b strings.Builder
	b.WriteString(c.Verb)
	b.WriteByte(' ')
	if c.Path != "" {
		b.WriteString(c.Path)
		return b.String()
	}
	b.WriteString(c.Resource.String())
	if c.Subresource != "" {
		b.WriteString("/" + c.Subresource)
	}
	switch {
	case c.Key.Name != "":
		b.WriteString(" " + c.Key.String())
	case c.Key.Namespace != "":
		b.WriteString(" in " + c.Key.Namespace)
	}
	return b.String()
}

// Error is an error response. It has the server's Status, or one that is derived from the HTTP
// status if something else than an API server responded, such as a proxy.
//
// The functions of apimachinery's errors package accept it (apierrors.IsNotFound and so on), and
// it wraps an *apierrors.StatusError.
type Error struct {
	Call
	// Code is the HTTP status.
	Code int
	// RetryAfter is the delay that the server asks for, 0 if it does not.
	RetryAfter time.Duration
	// Attempts is the number of times that the request was sent.
	Attempts int

	status *apierrors.StatusError
}

// Error returns the call and the server's message.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Call, e.status.Error())
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	return b.String()
}

// String returns the same as Error. Without it, Error would inherit the String of its Call, which
// loggers such as klog prefer over Error, and the log would lack the cause.
func (e *Error) String() string { return e.Error() }

// Status returns the server's Status.
func (e *Error) Status() metav1.Status { return e.status.Status() }

// Unwrap returns the *apierrors.StatusError.
func (e *Error) Unwrap() error { return e.status }

// TransportError means that there was no usable response: the request was invalid and not sent,
// the network failed, the context was done, or the response was corrupt or too large.
type TransportError struct {
	Call
	// Err is the cause. It is the context's error if the context is done.
	Err error
	// Previous is the error of the attempt before the last one; nil if there was only one.
	// TransportError wraps it too.
	Previous error
	// Attempts is the number of times that the request was sent.
	Attempts int
}

// Error returns the call and the cause.
func (e *TransportError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v", e.Call, e.Err)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	if e.Previous != nil {
		var status *Error
		if errors.As(e.Previous, &status) {
			fmt.Fprintf(&b, "; before that: %v", status.status)
		} else {
			fmt.Fprintf(&b, "; before that: %v", e.Previous)
		}
	}
	return b.String()
}

// String returns the same as Error; see [Error.String].
func (e *TransportError) String() string { return e.Error() }

// Unwrap returns the causes.
func (e *TransportError) Unwrap() []error {
	if e.Previous == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Previous}
}

// ErrBodyTooLarge means that a response exceeds [Options].MaxBody.
var ErrBodyTooLarge = errors.New("response too large")

// maxErrorBody is the part of an error response that is read. A Status is much smaller, unless
// it lists many invalid fields.
const maxErrorBody = 1 << 20

// errorBodyTimeout limits the time to read an error response, also that of a stream.
const errorBodyTimeout = 10 * time.Second

// maxErrorText is the maximum length of the quote from a response that is not a Status.
const maxErrorText = 256

// StatusError returns the error for a Status that the server sent inside a response with HTTP
// status 200, such as the object of a watch's ERROR event. It redacts credentials in st.
func (c *Client) StatusError(call Call, st *metav1.Status) *Error {
	c.secrets.status(st)
	return &Error{
		Call: call, Code: int(st.Code), Attempts: 1, RetryAfter: retryAfter(nil, st),
		status: &apierrors.StatusError{ErrStatus: *st},
	}
}

// errorResponse returns the error for a response other than 2xx. data is its body, or the first
// part of it.
func (c *Client) errorResponse(call Call, attempts int, resp *http.Response, data []byte) *Error {
	if status, ok := decodeStatus(data); ok {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		e := c.StatusError(call, status)
		e.Code, e.Attempts, e.RetryAfter = resp.StatusCode, attempts, retryAfter(resp.Header, status)
		return e
	}
	e := &Error{Call: call, Code: resp.StatusCode, Attempts: attempts, RetryAfter: retryAfter(resp.Header, nil)}
	e.status = apierrors.NewGenericServerResponse(resp.StatusCode, resp.Request.Method, call.Resource.GVR().GroupResource(),
		call.Key.Name, "", int(e.RetryAfter/time.Second), true)
	e.status.ErrStatus.Message = foreignMessage(resp, data)
	e.status.ErrStatus.Details.Causes[0].Message = e.status.ErrStatus.Message
	c.secrets.status(&e.status.ErrStatus)
	return e
}

// foreignMessage describes in one line a response that is not from an API server.
func foreignMessage(resp *http.Response, data []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server returned %d", resp.StatusCode)
	if t := http.StatusText(resp.StatusCode); t != "" {
		b.WriteString(" " + t)
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		fmt.Fprintf(&b, ", a redirect, which is not followed; check the server's address")
		if to, err := resp.Location(); err == nil {
			fmt.Fprintf(&b, " (it points to %s://%s)", to.Scheme, to.Host)
		}
		return b.String()
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(media), "text/html") {
		b.WriteString(" with an HTML page, probably from a proxy; check the server's address")
		data = []byte(plainText(string(data[:min(len(data), 16<<10)])))
	}
	if text := oneLine(data); text != "" {
		fmt.Fprintf(&b, ": %q", text)
	}
	return b.String()
}

var (
	hiddenElements = regexp.MustCompile(`(?is)<(script|style|head)\b.*?</(script|style|head)>|<!--.*?-->`)
	htmlTags       = regexp.MustCompile(`(?s)<[^<>]*>`)
	htmlTitle      = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
)

// plainText returns the title of an HTML page, or else its text.
func plainText(page string) string {
	if m := htmlTitle.FindStringSubmatch(page); m != nil && strings.TrimSpace(m[1]) != "" {
		return m[1]
	}
	return htmlTags.ReplaceAllString(hiddenElements.ReplaceAllString(page, " "), " ")
}

// oneLine returns the start of data as one line of printable text, without credentials.
func oneLine(data []byte) string {
	cut := len(data) > 4*maxErrorText
	text := strings.ToValidUTF8(string(data[:min(len(data), 4*maxErrorText)]), "·")
	text = redact(oneline.Of(text))
	if len(text) > maxErrorText {
		text, cut = strings.ToValidUTF8(text[:maxErrorText], ""), true
	}
	if cut && text != "" {
		text += "…"
	}
	return text
}

// connectionClosed reports whether err means that the server or the transport closed the
// connection during a request.
func connectionClosed(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return true
	}
	// net/http does not export the types of these.
	text := err.Error()
	for _, known := range []string{
		"http: server closed idle connection",
		"http2: server sent GOAWAY",
		"http2: client connection",
		"stream error: stream ID",
	} {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}
