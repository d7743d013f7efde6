package access

import (
	"slices"
	"sync"
)

// denials holds the last distinct denials.
type denials struct {
	mu   sync.Mutex // guards the rest
	all  []string
	seen map[string]bool
}

func (d *denials) add(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	if d.seen[text] {
		return
	}
	if len(d.all) == maxDenials {
		delete(d.seen, d.all[0])
		d.all = slices.Delete(d.all, 0, 1)
	}
	d.seen[text] = true
	d.all = append(d.all, text)
}

// maxDenials is how many denials a server remembers.
const maxDenials = 1000
