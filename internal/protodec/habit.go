package protodec

// place is what a state has learned of one field: of its strings, or of its parts. It
// is learned for the first time that the field comes in an object apart from the
// second and so on, since what a list or a map begins with may repeat where the rest
// of it does not.
//
// Objects come in the order of their names, so an object is mostly of the same template
// as the one before it: what the field held there is tried before any table is asked.
// That costs a comparison and saves a hash.
type place[T any] struct {
	object uint32 // the one that the field came in last
	times  uint32 // how often it has come in that
	turns  []turn[T]
}

// turn is what was learned of one of the times that a field comes in an object.
type turn[T any] struct {
	last T // what was found last; the zero value for none
	habit
}

// maxTurns is how often a field comes in an object before it begins at the first turn
// again.
const maxTurns = 8

// next returns the turn of a field that comes in the given object.
func (p *place[T]) next(object uint32) *turn[T] {
	if p.object != object {
		p.object, p.times = object, 0
	}
	at := int(p.times % maxTurns)
	p.times++
	if at == len(p.turns) {
		p.turns = append(p.turns, turn[T]{})
	}
	return &p.turns[at]
}

// habit is whether asking a table pays.
type habit struct {
	asked, found uint16
	pause        uint16 // how often not to ask
}

const (
	habitWindow = 256  // questions from which it is judged
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
