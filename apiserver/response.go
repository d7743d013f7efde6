package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// compressFrom is the size from which responses are compressed, as on the real server.
const compressFrom = 128 << 10

// respond encodes and sends an object.
func (s *Server) respond(w http.ResponseWriter, req *http.Request, rep codec.Representation, code int, obj runtime.Object) {
	w.Header().Set("Content-Type", rep.ContentType(s.codecs, false))
	out := newCompressor(w, req, code)
	err := s.codecs.Encoder(rep).Encode(obj, out)
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		s.opts.Logger.Debug("sending response failed", "path", req.URL.Path, "error", err)
	}
}

// respondRaw sends encoded bytes.
func (s *Server) respondRaw(w http.ResponseWriter, req *http.Request, contentType string, code int, raw []byte) {
	w.Header().Set("Content-Type", contentType)
	out := newCompressor(w, req, code)
	if _, err := out.Write(raw); err == nil {
		_ = out.Close() // fails only if the client disconnected
	}
}

// statusOf converts an error to an API Status.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: "Internal error occurred: " + err.Error(),
	}
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		status = api.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

// respondError sends an error as a Status.
func (s *Server) respondError(w http.ResponseWriter, req *http.Request, err error) {
	defer s.requests.answered(req)
	status := statusOf(err)
	rep, bad := codec.Negotiate(req, func(r codec.Representation) bool { return r.As == "" })
	if bad != nil {
		rep = codec.Representation{}
	}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	s.respond(w, req, rep, int(status.Code), status)
}

// compressor compresses responses from compressFrom on if the client accepts it. It delays
// the header until that is decided.
type compressor struct {
	w      http.ResponseWriter
	code   int
	may    bool
	held   bytes.Buffer
	out    io.Writer // nil until the header is sent
	packed *gzip.Writer
}

func newCompressor(w http.ResponseWriter, req *http.Request, code int) *compressor {
	return &compressor{w: w, code: code, may: strings.Contains(req.Header.Get("Accept-Encoding"), "gzip")}
}

// Write buffers the beginning until it reaches compressFrom.
func (c *compressor) Write(p []byte) (int, error) {
	if c.out == nil && c.held.Len()+len(p) < compressFrom {
		return c.held.Write(p)
	}
	if err := c.begin(c.may); err != nil {
		return 0, err
	}
	return c.out.Write(p)
}

// begin sends the header and the buffered data.
func (c *compressor) begin(packed bool) error {
	if c.out != nil {
		return nil
	}
	limitWrites(c.w, answerTimeout)
	c.out = c.w
	c.w.Header().Add("Vary", "Accept-Encoding")
	if packed {
		c.w.Header().Set("Content-Encoding", "gzip")
		c.packed, _ = gzip.NewWriterLevel(c.w, gzip.BestSpeed) // fails only for an invalid level
		c.out = c.packed
	}
	c.w.WriteHeader(c.code)
	_, err := c.out.Write(c.held.Bytes())
	c.held.Reset()
	return err
}

// Close sends the remaining data.
func (c *compressor) Close() error {
	if c.out == nil {
		c.w.Header().Set("Content-Length", strconv.Itoa(c.held.Len()))
	}
	if err := c.begin(false); err != nil {
		return err
	}
	if c.packed != nil {
		return c.packed.Close()
	}
	return nil
}
