package wire

import (
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Warning is what a server says beside an answer: a deprecated API, an object that
// it took but thinks unwise.
type Warning struct {
	// Code is 299 in all that the API server sends.
	Code int
	// Agent names who warns; "-" when it does not say.
	Agent string
	// Text is for people.
	Text string
}

// warnings hands each text to the handler once. It remembers a bounded number of
// texts; when there are more, the older half is forgotten and may be told again.
type warnings struct {
	handle  func(Warning)
	secrets *secrets // what a text must not show

	mu       sync.Mutex // guards young and old
	young    map[string]struct{}
	old      map[string]struct{}
	capacity int // of each generation
}

const (
	warningTexts  = 512  // remembered in each of two generations
	warningLength = 1024 // bytes of one text; servers cut theirs at 256
)

func newWarnings(opts Options, known *secrets) *warnings {
	w := &warnings{handle: opts.Warnings, capacity: warningTexts, secrets: known}
	if w.handle == nil {
		log := opts.Logger
		w.handle = func(w Warning) { log.Warn("the API server warns", "warning", w.Text, "agent", w.Agent) }
	}
	return w
}

// receive takes the Warning headers of one answer.
func (w *warnings) receive(headers []string) {
	if len(headers) == 0 {
		return
	}
	// Headers that cannot be read are worth no error: the answer itself is good.
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

// first reports whether the text is not remembered, and remembers it.
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
