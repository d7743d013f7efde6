package apiserver

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// The times after which a connection whose client neither sends nor reads is dropped.
const (
	// headTimeout is for the head of a request.
	headTimeout = 32 * time.Second
	// bodyTimeout is for the body of a request.
	bodyTimeout = time.Minute
	// answerTimeout is for an answer that is not a watch, from its first byte on.
	answerTimeout = 5 * time.Minute
	// watchGrace is for the last events of a watch that has timed out.
	watchGrace = 10 * time.Second
)

// limitWrites bounds the time that an answer takes from now on. Every answer sets it, so
// that the deadline of the last one on the connection does not matter. Writers of a caller's
// own that have no deadlines are left alone.
func limitWrites(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// limitBody bounds the time that the body of a request takes.
func limitBody(w http.ResponseWriter, req *http.Request) {
	if req.Body == nil || req.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
		req.Body = &timedBody{req.Body, control}
	}
}

// timedBody lifts the deadline when it has been read: what is read from the connection
// afterwards is the client's going away.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // it could be set
	}
	return n, err
}
