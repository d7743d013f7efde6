package protodec

// place is what a state has learned about the strings or the parts of one field. The first
// occurrence of the field in an object, the second and so on are learned separately,
// because the first element of a list or map may repeat where the others do not.
//
// Objects come in the order of their names, so an object mostly has the template of the
// previous one. What the field held there is compared before a table lookup: that costs a
// comparison and saves a hash.
type place[T any] struct {
	object uint32 // the last that had the field
	times  uint32 // occurrences of the field in that object
	turns  []turn[T]
}

// turn is what was learned about one occurrence of a field in its object.
type turn[T any] struct {
	last T // what was found last; the zero value for none
	hitRate
}

// maxTurns is how many occurrences are learned separately; the next begins at the first
// again.
const maxTurns = 8

// next returns the turn of the field's next occurrence in the object.
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

// hitRate counts how often table lookups find something, and says whether they pay.
type hitRate struct {
	asked, found uint16
	pause        uint16 // lookups to skip
}

const (
	hitRateWindow = 256  // lookups after which it is judged
	hitRateLeast  = 64   // hits among them that make it worthwhile
	hitRatePause  = 4096 // lookups to skip otherwise
)

func (h *hitRate) worth() bool {
	if h.pause > 0 {
		h.pause--
		return false
	}
	return true
}

func (h *hitRate) note(found bool) {
	h.asked++
	if found {
		h.found++
	}
	if h.asked == hitRateWindow {
		if h.found < hitRateLeast {
			h.pause = hitRatePause
		}
		h.asked, h.found = 0, 0
	}
}
