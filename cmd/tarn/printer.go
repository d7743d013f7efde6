package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// printer is standard output or standard error. Everything that the command prints goes
// through one, because names, messages and contents come from the cluster, from files and
// from the command line: Write escapes what a terminal would obey. Only a [page] carries
// escape sequences to the terminal, and only those of this file. All methods may be called
// from any goroutine.
//
// Rejected: escaping where each value is printed. The one place that forgets is the hole.
type printer struct {
	to io.Writer

	mu     sync.Mutex // guards failed, and writing
	failed error      // of the first write that failed
}

// newPrinter returns a printer to a stream.
func newPrinter(to io.Writer) *printer { return &printer{to: to} }

// Write escapes and writes text. Newlines and tabs are kept.
func (p *printer) Write(text []byte) (int, error) {
	if err := p.raw(escape(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// show writes a page with a single write, so that nothing flickers.
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

// err returns why output was lost, in a sentence, or nil if none was.
func (p *printer) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		return nil
	}
	return fmt.Errorf("the output cannot be written: %s", reason(p.failed))
}

// paint is whether styles are wanted.
type paint bool

// style is a text style of a terminal.
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

// control is an escape sequence that moves the cursor or clears a part of the screen.
type control string

const (
	clearLine  control = "\r\x1b[K" // and go to its start
	clearRight control = "\x1b[K"
	clearBelow control = "\x1b[J"
)

// up moves the cursor to the start of the line n lines above.
func up(n int) control { return control(fmt.Sprintf("\r\x1b[%dA", n)) }

// page is text for a [printer] with styles and controls. Text that is added is escaped.
// A page belongs to one goroutine.
type page struct {
	paint paint
	text  strings.Builder
}

// put adds text, whose newlines are kept.
func (p *page) put(text string) { p.text.WriteString(escape(text, "\n")) }

// putf adds formatted text.
func (p *page) putf(format string, args ...any) { p.put(fmt.Sprintf(format, args...)) }

// in adds text in a style, which ends with the text.
func (p *page) in(s style, text string) {
	if !p.paint || s == regular || text == "" {
		p.put(text)
		return
	}
	p.text.WriteString("\x1b[" + string(s) + "m")
	p.put(text)
	p.text.WriteString("\x1b[0m")
}

// control adds a control.
func (p *page) control(c control) { p.text.WriteString(string(c)) }

// add adds another page.
func (p *page) add(other *page) { p.text.WriteString(other.String()) }

// String returns what is written.
func (p *page) String() string { return p.text.String() }

// shown reports whether a terminal shows a character as text: it does not obey it, as it
// does control characters, and it is neither invisible nor does it reorder others, as the
// bidirectional controls do.
func shown(r rune) bool { return unicode.IsGraphic(r) }

// escape replaces every character that is not shown, except those to keep, by an escape
// sequence of Go: \x1b, \u202e. Bytes that are not UTF-8 become \x and two digits. Double-quoted
// scalars of YAML have the same sequences.
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

// escapeWith replaces every character that is not shown, except those to keep, by what put
// writes for it. put gets the bytes as well, which tell a byte that is not UTF-8.
func escapeWith(text, keep string, put func(b *strings.Builder, r rune, raw string)) string {
	var b strings.Builder
	done := 0 // what is before it is written
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

// plain returns text as one line with everything escaped that a terminal would obey.
func plain(text string) string {
	return escape(spaced.Replace(text), "")
}

var spaced = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

// cut shortens text to a number of characters.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:max(n-1, 0)]) + "…"
}
