package main

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"
)

// screen is where a live view is written: output and remarks, and on a terminal one line
// below them that tells how things stand, which is redrawn in place and taken away at the
// end. All methods may be called from any goroutine.
//
// Rejected: the terminal's alternate screen. It would take away what was shown when the
// command ends, and scrolling with it.
type screen struct {
	out, errs *printer
	tty       bool
	width     func() int
	paint     paint

	mu     sync.Mutex // guards what follows, and writing
	line   string     // as drawn, without its style; empty if there is none
	closed bool
}

// newScreen returns a screen for the command's output.
func newScreen(e *env) *screen {
	s := &screen{out: e.out, errs: e.err, paint: paint(e.colour())}
	if fd, ok := e.terminal(); ok && os.Getenv("TERM") != "dumb" {
		s.tty = true
		s.width = func() int {
			if w, _, err := term.GetSize(fd); err == nil && w > 0 {
				return w
			}
			return 80
		}
	}
	return s
}

// print writes output.
func (s *screen) print(text *page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || text.text.Len() == 0 {
		return nil
	}
	framed := s.erased()
	framed.add(text)
	framed.in(faint, s.line)
	return s.out.show(framed)
}

// say writes a remark, one line, to standard error.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.draw(s.erased())
	fmt.Fprintln(s.errs, plain(fmt.Sprintf(format, args...)))
	again := s.blank()
	again.in(faint, s.line)
	s.draw(again)
}

// status draws the line below the output; without a terminal it does nothing.
func (s *screen) status(text string) {
	if !s.tty {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	line := cut(plain(text), s.width()-1)
	if s.closed || line == s.line {
		return
	}
	s.line = line
	p := s.blank()
	p.control(clearLine)
	p.in(faint, line)
	s.draw(p)
}

func (s *screen) blank() *page { return &page{paint: s.paint} }

// erased returns a page that takes the line away. The lock must be held.
func (s *screen) erased() *page {
	p := s.blank()
	if s.line != "" {
		p.control(clearLine)
	}
	return p
}

// draw writes a part of the line. If that fails, so does the next output.
func (s *screen) draw(p *page) {
	if p.text.Len() > 0 {
		_ = s.out.show(p) // the printer keeps the error
	}
}

// close leaves the terminal as it was, with the output on it. Nothing is written later.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(s.erased())
	s.line, s.closed = "", true
}
