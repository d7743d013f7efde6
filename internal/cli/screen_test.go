package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestScreenKeepsItsLineBelowTheOutput(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: newPrinter(&out), errs: newPrinter(&out), tty: true, width: func() int { return 12 }}
	s.status("live, 1 object")
	s.print(pageOf("one\n"))
	s.say("remark %d", 1)
	s.status("live, 2 objects and more")
	s.print(pageOf("two\nthree\n"))
	if got, want := emulate(strings.ReplaceAll(out.String(), "\n", "\r\n")), "one\nremark 1\ntwo\nthree\nlive, 2 ob…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.close()
	s.print(pageOf("late\n"))
	s.say("late")
	s.status("late")
	if got, want := emulate(strings.ReplaceAll(out.String(), "\n", "\r\n")), "one\nremark 1\ntwo\nthree\n"; got != want {
		t.Errorf("after the end %q, want %q", got, want)
	}
}

func TestScreenWithoutATerminalHasNoStatusLine(t *testing.T) {
	var out, errs bytes.Buffer
	s := &screen{out: newPrinter(&out), errs: newPrinter(&errs)}
	s.status("live")
	s.print(pageOf("one\n"))
	s.say("remark")
	s.close()
	if out.String() != "one\n" || errs.String() != "remark\n" {
		t.Errorf("%q, %q", out.String(), errs.String())
	}
}

func TestPlainAndCut(t *testing.T) {
	if got := plain("a\x1b[2J\tb\nc\u009b"); got != `a\x1b[2J b c\u009b` {
		t.Errorf("%q", got)
	}
	if got := cut("größer", 4); got != "grö…" {
		t.Errorf("%q", got)
	}
	if got := cut("größe", 5); got != "größe" {
		t.Errorf("%q", got)
	}
}

func pageOf(text string) *page {
	p := &page{}
	p.put(text)
	return p
}
