package response

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Timeouts for connections whose client neither sends nor reads.
const (
	// HeadTimeout limits reading a request's header.
	HeadTimeout = 32 * time.Second
	// bodyTimeout limits reading a request's body.
	bodyTimeout = time.Minute
	// answerTimeout limits writing a response other than a watch, from its first byte.
	answerTimeout = 5 * time.Minute
	// WatchGrace is the time left to write the last events of a watch that timed out.
	WatchGrace = 10 * time.Second
)

// LimitWrites sets a write deadline. Every response sets its own, since it outlives the
// request on a reused connection. Writers without deadlines are left alone.
func LimitWrites(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// LimitBody limits the time to read the request body.
func LimitBody(w http.ResponseWriter, req *http.Request) {
	if req.Body == nil || req.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
		req.Body = &timedBody{req.Body, control}
	}
}

// timedBody clears the read deadline at the end of the body: net/http keeps reading the
// connection after that to detect that the client disconnected.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // setting it succeeded before
	}
	return n, err
}
