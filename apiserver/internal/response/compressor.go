package response

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// compressFrom is the size from which responses are compressed, as on the real server.
const compressFrom = 128 << 10

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
	LimitWrites(c.w, answerTimeout)
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
