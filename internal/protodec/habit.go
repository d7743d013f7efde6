package protodec

// site is what a state has learned of the strings of one field, and unit what it has
// learned of a field's parts. Objects come in the order of their names, so an object
// is mostly of the same template as the one before it: what the field held there, the
// first time it came, the second and so on, is tried before any table is asked. That
// costs a comparison and saves a hash.
type site struct {
	habit
	position
	recent []string // by turn; empty for none
}

type unit struct {
	habit
	position
	recent []*part // by turn; nil for none
}

// maxRecent is how many times a field may come in an object before the places where it
// is remembered are used again. A power of two.
const maxRecent = 8

// position counts how often a field has come in an object.
type position struct {
	object uint32
	times  uint32
}

// turn returns where what the field holds this time is remembered.
func (p *position) turn(object uint32) int {
	if p.object != object {
		p.object, p.times = object, 0
	}
	at := p.times % maxRecent
	p.times++
	return int(at)
}

// remember sets recent[at], for which it makes room.
func remember[T any](recent []T, at int, v T) []T {
	for len(recent) <= at {
		var none T
		recent = append(recent, none)
	}
	recent[at] = v
	return recent
}

// habit is whether asking a table pays, for one field.
type habit struct {
	asked, found uint16
	pause        uint16 // how often not to ask
}

const (
	habitWindow = 256  // questions from which the field is judged
	habitLeast  = 64   // finds among them that make it worth going on
	habitPause  = 4096 // how long to leave it be otherwise
)

func (h *habit) worth() bool {
	if h.pause > 0 {
		h.pause--
		return false
	}
	return true
}

func (h *habit) note(found bool) {
	h.asked++
	if found {
		h.found++
	}
	if h.asked == habitWindow {
		if h.found < habitLeast {
			h.pause = habitPause
		}
		h.asked, h.found = 0, 0
	}
}
