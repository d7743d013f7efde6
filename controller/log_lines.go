package controller

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// Bounds of what is kept of the log of a reconcile.
const (
	maxLogLines = 20
	maxLogLine  = 500 // bytes
)

// logLines keeps the first lines of a reconcile's log. Its zero value is ready to use.
type logLines struct {
	mu   sync.Mutex // guards text; the reconcile may log from several goroutines
	text []string
}

func (l *logLines) add(line string) {
	if len(line) > maxLogLine {
		line = strings.ToValidUTF8(line[:maxLogLine], "") + "…"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) < maxLogLines {
		l.text = append(l.text, line)
	}
}

// full reports whether no more lines are kept.
func (l *logLines) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.text) >= maxLogLines
}

func (l *logLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// keeper is a handler that keeps lines of level info and above, besides passing them on, whether
// the next handler discards them or not. It formats only the lines that it keeps. The next handler's
// own formatting and redaction cannot be applied; see Options.Recent.
type keeper struct {
	next   slog.Handler
	lines  *logLines
	attrs  string // " key=value …"
	groups string // "group.…"
}

// Enabled implements [slog.Handler].
func (k keeper) Enabled(ctx context.Context, l slog.Level) bool {
	return k.keeps(l) || k.next.Enabled(ctx, l)
}

func (k keeper) keeps(l slog.Level) bool { return l >= slog.LevelInfo && !k.lines.full() }

// Handle implements [slog.Handler].
func (k keeper) Handle(ctx context.Context, r slog.Record) error {
	if k.keeps(r.Level) {
		var b strings.Builder
		b.WriteString(r.Level.String() + " " + r.Message + k.attrs)
		r.Attrs(func(a slog.Attr) bool {
			writeAttr(&b, k.groups, a)
			return true
		})
		k.lines.add(b.String())
	}
	if !k.next.Enabled(ctx, r.Level) {
		return nil
	}
	return k.next.Handle(ctx, r)
}

func writeAttr(b *strings.Builder, groups string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		fmt.Fprintf(b, " %s%s=%v", groups, a.Key, v)
		return
	}
	if a.Key != "" {
		groups += a.Key + "."
	}
	for _, in := range v.Group() {
		writeAttr(b, groups, in)
	}
}

// WithAttrs implements [slog.Handler].
func (k keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, k.groups, a)
	}
	k.next, k.attrs = k.next.WithAttrs(attrs), k.attrs+b.String()
	return k
}

// WithGroup implements [slog.Handler].
func (k keeper) WithGroup(name string) slog.Handler {
	k.next = k.next.WithGroup(name)
	if name != "" {
		k.groups += name + "."
	}
	return k
}
