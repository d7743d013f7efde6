package tarntest

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// keptLines is how many lines of the log are kept, as many as the server keeps requests.
const keptLines = 300

// programLog holds the last lines that the program logged.
type programLog struct {
	began time.Time

	mu      sync.Mutex // guards the rest
	lines   []string
	dropped int
}

// Write implements [io.Writer]. A handler of slog calls it once per line.
func (l *programLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == keptLines {
		l.lines = l.lines[1:]
		l.dropped++
	}
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

// String returns the lines.
func (l *programLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return "nothing"
	}
	text := strings.TrimSuffix(strings.Join(l.lines, ""), "\n")
	if l.dropped > 0 {
		text = fmt.Sprintf("%d earlier lines\n%s", l.dropped, text)
	}
	return text
}

// sinceStart replaces the time of a line, as in the log of requests.
func (l *programLog) sinceStart(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, fmt.Sprintf("%.3fs", a.Value.Time().Sub(l.began).Seconds()))
	}
	return a
}
