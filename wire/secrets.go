package wire

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// secrets are the credentials of a client, which are blotted out of every text that its
// errors, warnings and logs show, whatever form the text has. They are those of the
// rest.Config and of the server URL, and those that its transport was seen to send: tokens
// from files, from credential plugins, or added by the caller's transport. A nil one
// knows none.
//
// All methods may be called from any goroutine.
type secrets struct {
	mu      sync.RWMutex // guards all below
	fixed   []string
	sent    []string // values of Authorization headers, the newest last
	known   []string // of sent: what is secret in them
	blotter *strings.Replacer
}

const (
	// minSecret is the length of the shortest text that is blotted out. A shorter one
	// occurs in any sentence.
	minSecret = 3
	// maxSent is how many Authorization headers are remembered.
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

// basic returns what is secret in basic authentication.
func basic(user, password string) []string {
	return []string{password, base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
}

// add adds secrets that stay known as long as the client.
func (k *secrets) add(texts ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fixed = append(k.fixed, texts...)
	k.build()
}

// observe notes with which credentials a request was sent: req is the one that the
// innermost transport got.
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

// build makes the blotter. The caller holds mu.
func (k *secrets) build() {
	var all []string
	for _, text := range slices.Concat(k.fixed, k.known) {
		if len(text) >= minSecret {
			all = append(all, text, url.QueryEscape(text))
		}
	}
	// The longest first: one may be part of another.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, text := range slices.Compact(all) {
		pairs = append(pairs, text, blot)
	}
	k.blotter = strings.NewReplacer(pairs...)
}

// blot returns the text without the credentials.
func (k *secrets) blot(text string) string {
	if k == nil {
		return text
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.blotter == nil {
		return text
	}
	return k.blotter.Replace(text)
}

// redact returns the text without the credentials and without what looks like one.
func (k *secrets) redact(text string) string { return redact(k.blot(text)) }

// status takes the credentials out of a Status.
func (k *secrets) status(st *metav1.Status) {
	st.Message = k.redact(st.Message)
	st.Reason = metav1.StatusReason(k.blot(string(st.Reason)))
	if st.Details == nil {
		return
	}
	st.Details.Name, st.Details.Kind = k.blot(st.Details.Name), k.blot(st.Details.Kind)
	for i := range st.Details.Causes {
		cause := &st.Details.Causes[i]
		cause.Message, cause.Field = k.redact(cause.Message), k.blot(cause.Field)
	}
}

// hide returns err without the URL that net/http puts around its errors, and with a
// text from which credentials are blotted out. errors.Is and errors.As still find
// what is inside.
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

// hidden is an error whose own text must not be seen. It has no Unwrap, so that code
// that prints a chain does not print it.
type hidden struct {
	text string
	err  error
}

func (e *hidden) Error() string        { return e.text }
func (e *hidden) Is(target error) bool { return errors.Is(e.err, target) }
func (e *hidden) As(target any) bool   { return errors.As(e.err, target) }
