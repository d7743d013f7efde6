package wire

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// secrets are the credentials of a client, which are removed from the texts of errors, warnings
// and logs: those of the rest.Config and of the server URL, and those that the transport has
// sent, such as tokens from files and credential plugins. All methods are safe for concurrent
// use.
type secrets struct {
	mu       sync.RWMutex // guards all below
	fixed    []string
	sent     []string // Authorization headers, the newest last
	known    []string // the secrets in sent
	replacer *strings.Replacer
}

const (
	// minSecret is the minimum length of a secret. Shorter ones occur in any sentence.
	minSecret = 3
	// maxSent is the number of Authorization headers that are kept.
	maxSent = 4
)

// configured returns the secrets of a rest.Config.
func configured(cfg *rest.Config) []string {
	out := []string{cfg.BearerToken}
	if cfg.Password != "" {
		out = append(out, basic(cfg.Username, cfg.Password)...)
	}
	for line := range strings.Lines(string(cfg.KeyData)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

// basic returns the secrets of basic authentication.
func basic(user, password string) []string {
	return []string{password, base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
}

// add adds secrets that are never removed.
func (k *secrets) add(texts ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fixed = append(k.fixed, texts...)
	k.build()
}

// observe adds the credentials of a request: req is the one that the innermost transport
// received.
func (k *secrets) observe(req *http.Request) {
	if req == nil {
		return
	}
	header := req.Header.Get("Authorization")
	if header == "" {
		return
	}
	k.mu.RLock()
	known := slices.Contains(k.sent, header)
	k.mu.RUnlock()
	if known {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent = append(k.sent, header)
	k.sent = k.sent[max(0, len(k.sent)-maxSent):]
	k.known = k.known[:0]
	for _, header := range k.sent {
		scheme, credentials, ok := strings.Cut(header, " ")
		if !ok {
			credentials = header
		}
		k.known = append(k.known, credentials)
		if strings.EqualFold(scheme, "basic") {
			if text, err := base64.StdEncoding.DecodeString(credentials); err == nil {
				_, password, _ := strings.Cut(string(text), ":")
				k.known = append(k.known, password)
			}
		}
	}
	k.build()
}

// build creates the replacer. The caller holds mu.
func (k *secrets) build() {
	var all []string
	for _, text := range slices.Concat(k.fixed, k.known) {
		if len(text) >= minSecret {
			all = append(all, text, url.QueryEscape(text))
		}
	}
	// The longest first, because one may be part of another.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, text := range slices.Compact(all) {
		pairs = append(pairs, text, redacted)
	}
	k.replacer = strings.NewReplacer(pairs...)
}

// mask returns the text without the client's credentials.
func (k *secrets) mask(text string) string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.replacer == nil {
		return text
	}
	return k.replacer.Replace(text)
}

// Redact returns the text without the client's credentials and without everything that looks
// like a credential.
func (c *Client) Redact(text string) string { return c.secrets.redact(text) }

func (k *secrets) redact(text string) string { return redact(k.mask(text)) }

// status removes the credentials from a Status.
func (k *secrets) status(st *metav1.Status) {
	st.Message = k.redact(st.Message)
	st.Reason = metav1.StatusReason(k.mask(string(st.Reason)))
	if st.Details == nil {
		return
	}
	st.Details.Name, st.Details.Kind = k.mask(st.Details.Name), k.mask(st.Details.Kind)
	for i := range st.Details.Causes {
		cause := &st.Details.Causes[i]
		cause.Message, cause.Field = k.redact(cause.Message), k.mask(cause.Field)
	}
}

// hide returns err without the URL that net/http adds and without credentials in its text.
// errors.Is and errors.As still find the cause.
func (k *secrets) hide(err error) error {
	for {
		withURL, ok := err.(*url.Error)
		if !ok {
			break
		}
		err = withURL.Err
	}
	if err == nil {
		return nil
	}
	if text := k.redact(err.Error()); text != err.Error() {
		return &hidden{text: text, err: err}
	}
	return err
}

// hidden is an error with a redacted text. It has no Unwrap, so that code that prints every error
// of a chain does not print the original text.
type hidden struct {
	text string
	err  error
}

func (e *hidden) Error() string        { return e.text }
func (e *hidden) Is(target error) bool { return errors.Is(e.err, target) }
func (e *hidden) As(target any) bool   { return errors.As(e.err, target) }

const redacted = "<redacted>"

// secretNames matches the names of parameters and fields that hold credentials.
const secretNames = `(?:[a-z0-9]+[_-])?(?:token|passw(?:or)?d|secret|api[_-]?key|signature|credentials?)`

// credentials matches credentials in texts.
var credentials = []struct {
	form *regexp.Regexp
	with string
}{
	// A header with any scheme.
	{regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["'\[]?)(?:[a-z]+\s+)?[^\s"',;\]]+`), "${1}" + redacted},
	// A scheme and its token without the header's name.
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[a-z0-9\-._~+/]{16,}=*`), "${1} " + redacted},
	// A JSON web token.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), redacted},
	// The query of a URL, and its user and password.
	{regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://[^\s"'?#]*\?)[^\s"']+`), "${1}" + redacted},
	{regexp.MustCompile(`(://)[^\s/@"'?#]+@`), "${1}" + redacted + "@"},
	// A query or a form without its URL, and JSON.
	{regexp.MustCompile(`(?i)\b(` + secretNames + `=)[^\s&"',;]+`), "${1}" + redacted},
	{regexp.MustCompile(`(?i)("` + secretNames + `"\s*:\s*")[^"]+`), "${1}" + redacted},
	// Prose: only values with a digit, because "invalid token: expired" is no secret.
	{regexp.MustCompile(`(?i)\b(` + secretNames + `:\s+)[^\s"',;]*[0-9][^\s"',;]*`), "${1}" + redacted},
}

// redact replaces everything that looks like a credential. The client's own credentials are
// known, so secrets replaces them in any form.
func redact(s string) string {
	for _, c := range credentials {
		s = c.form.ReplaceAllString(s, c.with)
	}
	return s
}
