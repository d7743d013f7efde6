package wire

import (
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Warning is a Warning header of the server, for example about a deprecated API or about a
// dubious field of an accepted object.
type Warning struct {
	// Code is 299 in all warnings of the API server.
	Code int
	// Agent is the component that warns; "-" if it is not named.
	Agent string
	// Text is the message.
	Text string
}

// warnings calls the handler once per text. It remembers a limited number of texts; if there are
// more, it forgets the older half, which may then be reported again.
type warnings struct {
	handle  func(Warning)
	secrets *secrets // removed from texts

	mu       sync.Mutex // guards young and old
	young    map[string]struct{}
	old      map[string]struct{}
	capacity int // of each generation
}

const (
	warningTexts  = 512  // remembered in each of two generations
	warningLength = 1024 // bytes of one text; API servers truncate theirs at 256
)

func newWarnings(opts Options, known *secrets) *warnings {
	w := &warnings{handle: opts.Warnings, capacity: warningTexts, secrets: known}
	if w.handle == nil {
		log := opts.Logger
		w.handle = func(w Warning) { log.Warn("warning from the API server", "warning", w.Text, "agent", w.Agent) }
	}
	return w
}

// receive handles the Warning headers of one response.
func (w *warnings) receive(headers []string) {
	if len(headers) == 0 {
		return
	}
	// Invalid headers are ignored, because the response itself is valid.
	parsed, _ := utilnet.ParseWarningHeaders(headers)
	for _, p := range parsed {
		if p.Code != 299 || p.Text == "" {
			continue
		}
		text := w.secrets.redact(p.Text)
		if len(text) > warningLength {
			text = strings.ToValidUTF8(text[:warningLength], "") + "…"
		}
		if w.first(text) {
			w.handle(Warning{Code: p.Code, Agent: w.secrets.redact(p.Agent), Text: text})
		}
	}
}

// first remembers the text and reports whether it is new.
func (w *warnings) first(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.young[text]; ok {
		return false
	}
	_, seen := w.old[text]
	if len(w.young) >= w.capacity {
		w.old, w.young = w.young, nil
	}
	if w.young == nil {
		w.young = map[string]struct{}{}
	}
	w.young[text] = struct{}{}
	return !seen
}
