package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// printer writes to standard output or standard error. All output goes through it, because
// names, messages and contents come from the cluster, from files and from the command line:
// Write escapes characters that a terminal would interpret. Only a [page] can contain
// escape sequences, and only those of this file. All methods may be called from any
// goroutine.
//
// Rejected: escaping wherever a value is printed. A single forgotten place would be a hole.
type printer struct {
	to io.Writer

	mu     sync.Mutex // guards failed and writes
	failed error      // error of the first failed write
}

func newPrinter(to io.Writer) *printer { return &printer{to: to} }

// Write escapes and writes text. It keeps newlines and tabs.
func (p *printer) Write(text []byte) (int, error) {
	if err := p.raw(escape(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// show writes a page with a single write, to avoid flicker.
func (p *printer) show(pg *page) error { return p.raw(pg.String()) }

func (p *printer) raw(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := io.WriteString(p.to, text)
	if err != nil && p.failed == nil {
		p.failed = err
	}
	return err
}

// err returns an error if output was lost.
func (p *printer) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		return nil
	}
	return fmt.Errorf("cannot write output: %s", reason(p.failed))
}

// paint enables styles.
type paint bool

// style is a terminal text style.
type style string

const (
	regular style = ""
	bold    style = "1"
	faint   style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	cyan    style = "36"
)

// page is text with styles and controls for a [printer]. Added text is escaped. A page
// belongs to one goroutine.
type page struct {
	paint paint
	text  strings.Builder
}

// put adds text and keeps newlines.
func (p *page) put(text string) { p.text.WriteString(escape(text, "\n")) }

func (p *page) putf(format string, args ...any) { p.put(fmt.Sprintf(format, args...)) }

// in adds text in a style.
func (p *page) in(s style, text string) {
	if !p.paint || s == regular || text == "" {
		p.put(text)
		return
	}
	p.text.WriteString("\x1b[" + string(s) + "m")
	p.put(text)
	p.text.WriteString("\x1b[0m")
}

// clearLine clears the line and returns to its start.
func (p *page) clearLine() { p.text.WriteString("\r\x1b[K") }

func (p *page) add(other *page) { p.text.WriteString(other.String()) }

// String returns the page with its escape sequences.
func (p *page) String() string { return p.text.String() }

// shown reports whether a terminal displays a character. It is false for control, invisible
// and bidirectional formatting characters.
func shown(r rune) bool { return unicode.IsGraphic(r) }

// escape replaces characters that are not shown, except those in keep, by Go escape
// sequences such as \x1b and \u202e. Invalid UTF-8 bytes become \x and two digits. The
// sequences are also valid in double-quoted YAML scalars.
func escape(text, keep string) string {
	return escapeWith(text, keep, func(b *strings.Builder, r rune, raw string) {
		switch {
		case len(raw) == 1:
			fmt.Fprintf(b, `\x%02x`, raw[0])
		case r < 1<<16:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	})
}

// escapeWith calls put for each character that is not shown and not in keep. raw holds its
// bytes, to recognize invalid UTF-8.
func escapeWith(text, keep string, put func(b *strings.Builder, r rune, raw string)) string {
	var b strings.Builder
	done := 0 // everything before is written
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || !shown(r) && !strings.ContainsRune(keep, r) {
			b.WriteString(text[done:i])
			put(&b, r, text[i:i+n])
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// plain returns text as one escaped line.
func plain(text string) string {
	return escape(spaced.Replace(text), "")
}

var spaced = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

// cut shortens text to n characters.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:max(n-1, 0)]) + "…"
}
