package wire

import "regexp"

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
