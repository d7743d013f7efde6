package cli

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"
)

// screen prints a live view: output, messages and, on a terminal, a status line below them.
// The status line is redrawn in place and removed at the end. All methods may be called
// from any goroutine.
//
// Rejected: the terminal's alternate screen. It would discard the output at the end and
// prevent scrolling.
type screen struct {
	out, errs *printer
	tty       bool
	width     func() int
	paint     paint

	mu     sync.Mutex // guards line and writes
	line   string     // as drawn, without style; empty if not drawn
	closed bool
}

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

// say prints a one-line message on standard error.
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

// status draws the status line. It does nothing without a terminal.
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
	p.clearLine()
	p.in(faint, line)
	s.draw(p)
}

func (s *screen) blank() *page { return &page{paint: s.paint} }

// erased returns a page that removes the status line. The caller must hold the lock.
func (s *screen) erased() *page {
	p := s.blank()
	if s.line != "" {
		p.clearLine()
	}
	return p
}

// draw draws part of the status line. If that fails, the next output fails as well.
func (s *screen) draw(p *page) {
	if p.text.Len() > 0 {
		_ = s.out.show(p) // the printer keeps the error
	}
}

// close removes the status line. Nothing is written afterwards.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(s.erased())
	s.line, s.closed = "", true
}
