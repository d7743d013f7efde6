package wire

import "regexp"

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
	// Prose: only values with a digit, since "invalid token: expired" is worth reading.
	{regexp.MustCompile(`(?i)\b(` + secretNames + `:\s+)[^\s"',;]*[0-9][^\s"',;]*`), "${1}" + blot},
}

// redact blots out what looks like a credential. It is the second net, for those of others;
// the client's own are known: see [secrets].
func redact(s string) string {
	for _, c := range credentials {
		s = c.form.ReplaceAllString(s, c.with)
	}
	return s
}
