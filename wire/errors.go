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
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// Call names a request in errors and logs: what was to be done, to what.
type Call struct {
	// Verb is the API's verb ("get", "deletecollection") or an HTTP method.
	Verb string
	// Resource is the zero Resource for a request by path.
	Resource    object.Resource
	Subresource string
	// Key has an empty name for a list and the like.
	Key object.Key
	// Path is the path of a request by path, without its query.
	Path string
}

// String returns the call as in "get pods/log shop/web".
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

// Error says that the server answered, and what: it holds the server's Status, or
// one made up from the HTTP status where a proxy or something else answered.
//
// The functions of apimachinery's errors package work on it (apierrors.IsNotFound
// and the others), and errors.As finds an *apierrors.StatusError in it.
type Error struct {
	Call
	// Code is the HTTP status.
	Code int
	// RetryAfter is how long the server asks to wait, 0 when it does not say.
	RetryAfter time.Duration
	// Attempts is how often the request was sent.
	Attempts int

	status *apierrors.StatusError
}

// Error names the call and gives the server's message.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Call, e.status.Error())
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	return b.String()
}

// String is Error. Without it an Error would have the String of its Call, and who prefers
// that to Error, as klog does, would not tell what happened.
func (e *Error) String() string { return e.Error() }

// Status returns the server's Status.
func (e *Error) Status() metav1.Status { return e.status.Status() }

// Unwrap returns the *apierrors.StatusError.
func (e *Error) Unwrap() error { return e.status }

// TransportError says that a request got no answer, or none that could be read: it
// was not built right and never sent, the network failed, the context ended, the
// body was broken or longer than allowed.
type TransportError struct {
	Call
	// Err is why. It is the context's error when the context ended.
	Err error
	// Previous is how the attempt before the last one failed; nil when there was
	// only one. errors.As and errors.Is look into it too.
	Previous error
	// Attempts is how often the request was sent.
	Attempts int
}

// Error names the call and the cause.
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

// String is Error, as in [Error.String].
func (e *TransportError) String() string { return e.Error() }

// Unwrap returns the causes.
func (e *TransportError) Unwrap() []error {
	if e.Previous == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Previous}
}

// ErrBodyTooLarge says that an answer was longer than [Options].MaxBody.
var ErrBodyTooLarge = errors.New("the answer is longer than allowed")

// maxErrorBody bounds what is read of an answer that is an error. A Status is
// smaller by far, except for one that lists every invalid field.
const maxErrorBody = 1 << 20

// errorBodyTimeout bounds how long such an answer may take, also where a stream has
// no other bound.
const errorBodyTimeout = 10 * time.Second

// maxErrorText bounds what an error shows of a body that is no Status.
const maxErrorText = 256

// statusError makes the error of an answer other than 2xx, from what there is of
// its body.
func statusError(call Call, attempts int, resp *http.Response, data []byte, known *secrets) *Error {
	e := &Error{Call: call, Code: resp.StatusCode, Attempts: attempts}
	if status, ok := decodeStatus(data); ok {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		known.status(status)
		e.status = &apierrors.StatusError{ErrStatus: *status}
		e.RetryAfter = retryAfter(resp.Header, status)
		return e
	}
	e.RetryAfter = retryAfter(resp.Header, nil)
	e.status = apierrors.NewGenericServerResponse(resp.StatusCode, resp.Request.Method, call.Resource.GVR().GroupResource(),
		call.Key.Name, "", int(e.RetryAfter/time.Second), true)
	e.status.ErrStatus.Message = foreignMessage(resp, data)
	e.status.ErrStatus.Details.Causes[0].Message = e.status.ErrStatus.Message
	known.status(&e.status.ErrStatus)
	return e
}

// foreignMessage says in one line what answered in the place of an API server.
func foreignMessage(resp *http.Response, data []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server answered %d", resp.StatusCode)
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
		b.WriteString(" with an HTML page, as a proxy does; check the server's address")
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

// plainText takes the words out of an HTML page: its title, or else its text.
func plainText(page string) string {
	if m := htmlTitle.FindStringSubmatch(page); m != nil && strings.TrimSpace(m[1]) != "" {
		return m[1]
	}
	return htmlTags.ReplaceAllString(hiddenElements.ReplaceAllString(page, " "), " ")
}

// oneLine makes a short line of printable text out of any bytes.
func oneLine(data []byte) string {
	cut := len(data) > 4*maxErrorText
	text := strings.ToValidUTF8(string(data[:min(len(data), 4*maxErrorText)]), "·")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	text = redact(text)
	if len(text) > maxErrorText {
		text, cut = strings.ToValidUTF8(text[:maxErrorText], ""), true
	}
	if cut && text != "" {
		text += "…"
	}
	return text
}

// connectionClosed tells the errors of a connection that the other side, or the
// transport itself, closed while a request was on it.
func connectionClosed(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return true
	}
	// net/http keeps the types of these to itself.
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
