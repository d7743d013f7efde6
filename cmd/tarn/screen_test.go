package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestScreenKeepsItsLineBelowTheOutput(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, errs: &out, tty: true, width: func() int { return 12 }}
	s.status("live, 1 object")
	s.print([]byte("one\n"))
	s.say("remark %d", 1)
	s.status("live, 2 objects and more")
	s.print([]byte("two\nthree\n"))
	if got, want := emulate(strings.ReplaceAll(out.String(), "\n", "\r\n")), "one\nremark 1\ntwo\nthree\nlive, 2 ob…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.close()
	s.print([]byte("late\n"))
	s.say("late")
	s.status("late")
	if got, want := emulate(strings.ReplaceAll(out.String(), "\n", "\r\n")), "one\nremark 1\ntwo\nthree\n"; got != want {
		t.Errorf("after the end %q, want %q", got, want)
	}
}

func TestScreenWithoutATerminalHasNoLine(t *testing.T) {
	var out, errs bytes.Buffer
	s := &screen{out: &out, errs: &errs}
	s.status("live")
	s.print([]byte("one\n"))
	s.say("remark")
	s.close()
	if out.String() != "one\n" || errs.String() != "remark\n" {
		t.Errorf("%q, %q", out.String(), errs.String())
	}
}

func TestPlainAndCut(t *testing.T) {
	if got := plain("a\x1b[2J\tb\nc\u009b"); got != "a\ufffd[2J b c\ufffd" {
		t.Errorf("%q", got)
	}
	if got := cut("größer", 4); got != "grö…" {
		t.Errorf("%q", got)
	}
	if got := cut("größe", 5); got != "größe" {
		t.Errorf("%q", got)
	}
}
