// Package oneline makes text from a server or an error fit for one line of a log or a page.
package oneline

import (
	"strings"
	"unicode"
)

// Of returns a text with each run of spaces, line ends and unprintable characters replaced by one
// space, and none at its ends.
func Of(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}
