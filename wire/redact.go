package wire

import (
	"errors"
	"net/url"
	"regexp"
)

const blot = "<redacted>"

// secretNames are what parameters and fields with credentials are called.
const secretNames = `(?:[a-z0-9]+[_-])?(?:token|passw(?:or)?d|secret|api[_-]?key|signature|credentials?)`

// credentials are the forms in which credentials turn up in texts.
var credentials = []struct {
	form *regexp.Regexp
	with string
}{
	// A header, whatever its scheme.
	{regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["'\[]?)(?:[a-z]+\s+)?[^\s"',;\]]+`), "${1}" + blot},
	// A scheme and its token, without the header's name.
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[a-z0-9\-._~+/]{16,}=*`), "${1} " + blot},
	// A JSON web token by itself.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), blot},
	// A URL's query, and what stands before its host.
	{regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://[^\s"'?#]*\?)[^\s"']+`), "${1}" + blot},
	{regexp.MustCompile(`(://)[^\s/@"'?#]+@`), "${1}" + blot + "@"},
	// A query or a form without its URL, and JSON.
	{regexp.MustCompile(`(?i)\b(` + secretNames + `=)[^\s&"',;]+`), "${1}" + blot},
	{regexp.MustCompile(`(?i)("` + secretNames + `"\s*:\s*")[^"]+`), "${1}" + blot},
}

// redact blots out what looks like a credential.
func redact(s string) string {
	for _, c := range credentials {
		s = c.form.ReplaceAllString(s, c.with)
	}
	return s
}

// hide returns err without the URL that net/http puts around its errors, and with a
// text from which credentials are blotted out. errors.Is and errors.As still find
// what is inside.
func hide(err error) error {
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
	if text := redact(err.Error()); text != err.Error() {
		return &hidden{text: text, err: err}
	}
	return err
}

// hidden is an error whose own text must not be seen. It has no Unwrap, so that
// nobody who prints a chain prints it.
type hidden struct {
	text string
	err  error
}

func (e *hidden) Error() string        { return e.text }
func (e *hidden) Is(target error) bool { return errors.Is(e.err, target) }
func (e *hidden) As(target any) bool   { return errors.As(e.err, target) }
