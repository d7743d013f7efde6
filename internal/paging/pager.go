// Package paging follows the pages of a list.
package paging

import (
	"fmt"

	"github.com/tarnproject/tarn/object"
)

// maxRestarts is how often a list is restarted in pages before it is requested without a limit.
const maxRestarts = 2

// Pager follows the pages of one list. The zero Pager asks for the first page. It belongs to the
// goroutine that reads the list.
//
// A list whose continue token expires starts again from its first page (L06). After two restarts
// it is requested without a limit, which cannot expire.
type Pager struct {
	// Pages is the number of pages read since the list last started.
	Pages int
	// Version is the version of the whole list, which is that of its first page: a watch from
	// there reports what changed while later pages were read.
	Version object.Version
	// Restarts counts the continue tokens that expired.
	Restarts int

	token string
	// seen is the token of the latest page whose number is a power of two. Tokens that come again and
	// again, however many there are, reach it again (Brent's algorithm).
	seen string
}

// Request returns the options of the next page, given those of the first. A continue token
// stands for the version, so a request has one or the other (L05).
func (p *Pager) Request(first object.ListOptions) object.ListOptions {
	if p.Unlimited() {
		first.Limit = 0
	}
	if p.token != "" {
		first.Continue, first.Version, first.Match = p.token, "", ""
	}
	return first
}

// Read records a page and reports whether it was the last. An empty page may have a successor
// (L07), but continue tokens that repeat, which would never end, are an [object.ErrCorrupt].
func (p *Pager) Read(page object.Page) (last bool, err error) {
	if page.Continue != "" && (page.Continue == p.token || page.Continue == p.seen) {
		return false, fmt.Errorf("%w: a continue token comes again after %d pages", object.ErrCorrupt, p.Pages)
	}
	if p.Pages++; p.Pages == 1 {
		p.Version = page.Version
	}
	p.token = page.Continue
	if p.Pages&(p.Pages-1) == 0 {
		p.seen = p.token
	}
	return p.token == "", nil
}

// Restart discards the pages because a continue token expired. The next request is for the
// first page.
func (p *Pager) Restart() { *p = Pager{Restarts: p.Restarts + 1} }

// Unlimited reports whether the list is requested without a limit, because too many continue
// tokens expired.
func (p *Pager) Unlimited() bool { return p.Restarts > maxRestarts }
