package main

import (
	"fmt"
	"io"
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
	out, errs io.Writer
	tty       bool
	width     func() int
	paint     paint

	mu     sync.Mutex // guards what follows, and writing
	line   string     // as drawn; empty if there is none
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
func (s *screen) print(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.line == "" {
		_, err := s.out.Write(text)
		return err
	}
	// In one write, so that nothing flickers.
	framed := append([]byte("\r\x1b[K"), text...)
	_, err := s.out.Write(append(framed, s.line...))
	return err
}

// say writes a remark, one line, to standard error.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.erase()
	fmt.Fprintf(s.errs, format+"\n", args...)
	if s.line != "" {
		io.WriteString(s.out, s.line)
	}
}

// status draws the line below the output; without a terminal it does nothing.
func (s *screen) status(text string) {
	if !s.tty {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.paint.in(faint, cut(plain(text), s.width()-1))
	if s.closed || line == s.line {
		return
	}
	io.WriteString(s.out, "\r\x1b[K"+line)
	s.line = line
}

// erase takes the line away on the terminal. The lock must be held.
func (s *screen) erase() {
	if s.line != "" {
		io.WriteString(s.out, "\r\x1b[K")
	}
}

// close leaves the terminal as it was, with the output on it. Nothing is written later.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.line, s.closed = "", true
}
