package shard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// owner is one term of a member. A member whose lease lapsed begins a new term when its work has
// ended, or its lease has expired; the old term then owns nothing any more.
type owner struct {
	name string // empty: none
	term int64
}

func (o owner) String() string {
	if o.name == "" {
		return "-"
	}
	return o.name + "#" + strconv.FormatInt(o.term, 10)
}

// placement is who works on a slot.
type placement struct {
	owner owner
	// next is the member that gets the slot when the owner has released it; empty if the slot
	// stays where it is.
	next string
	// epoch increases with every change of the placement.
	epoch uint64
}

func (p placement) String() string {
	text := p.owner.String()
	if p.next != "" {
		text += ">" + p.next
	}
	return text + "@" + strconv.FormatUint(p.epoch, 10)
}

// assignment is the placement of every slot.
type assignment [Slots]placement

// String returns the assignment as it is stored: a line for each run of equal slots, such as
// "0-15 web-a#1>web-b@3".
func (a *assignment) String() string {
	var b strings.Builder
	for from := 0; from < Slots; {
		to := from
		for to+1 < Slots && a[to+1] == a[from] {
			to++
		}
		fmt.Fprintf(&b, "%s %s\n", span{from, to}, a[from])
		from = to + 1
	}
	return b.String()
}

// span is a run of slots, both included.
type span struct{ from, to int }

func (s span) String() string {
	if s.from == s.to {
		return strconv.Itoa(s.from)
	}
	return fmt.Sprintf("%d-%d", s.from, s.to)
}

func parseSpan(text string) (s span, err error) {
	from, to, many := strings.Cut(text, "-")
	if !many {
		to = from
	}
	if s.from, err = strconv.Atoi(from); err == nil {
		s.to, err = strconv.Atoi(to)
	}
	if err != nil || s.from < 0 || s.to < s.from || s.to >= Slots {
		return s, fmt.Errorf("shard: %q is not a slot or a range of slots from 0 to %d", text, Slots-1)
	}
	return s, nil
}

// parseAssignment is the inverse of [assignment.String]. The text must name every slot once.
func parseAssignment(text string) (a assignment, err error) {
	next := 0
	for line := range strings.Lines(text) {
		slots, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s, err := parseSpan(slots)
		if err != nil {
			return a, err
		}
		if s.from != next {
			return a, fmt.Errorf("shard: slot %d is not where it belongs in the assignment", s.from)
		}
		p, err := parsePlacement(rest)
		if err != nil {
			return a, err
		}
		for ; next <= s.to; next++ {
			a[next] = p
		}
	}
	if next != Slots {
		return a, fmt.Errorf("shard: the assignment has %d slots, not %d", next, Slots)
	}
	return a, nil
}

func parsePlacement(text string) (p placement, err error) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return p, fmt.Errorf("shard: the placement %q has no epoch", text)
	}
	if p.epoch, err = strconv.ParseUint(text[at+1:], 10, 64); err != nil {
		return p, fmt.Errorf("shard: the epoch of %q: %w", text, err)
	}
	who, next, _ := strings.Cut(text[:at], ">")
	p.next = next
	if who == "-" {
		return p, nil
	}
	name, term, _ := strings.Cut(who, "#")
	if p.owner.term, err = strconv.ParseInt(term, 10, 64); err != nil || name == "" || p.epoch == 0 {
		return p, fmt.Errorf("shard: the owner of %q must be NAME#TERM, with an epoch from 1 on", text)
	}
	p.owner.name = name
	return p, nil
}

// slotSet is a set of slots.
type slotSet [Slots]bool

// String returns the slots as they are stored, such as "3,5-9".
func (s *slotSet) String() string {
	var parts []string
	for from := 0; from < Slots; from++ {
		if !s[from] {
			continue
		}
		to := from
		for to+1 < Slots && s[to+1] {
			to++
		}
		parts = append(parts, span{from, to}.String())
		from = to
	}
	return strings.Join(parts, ",")
}

// parseSlots is the inverse of [slotSet.String]. It ignores parts that it cannot read.
func parseSlots(text string) (s slotSet) {
	for part := range strings.SplitSeq(text, ",") {
		if run, err := parseSpan(part); err == nil {
			for i := run.from; i <= run.to; i++ {
				s[i] = true
			}
		}
	}
	return s
}

// shard returns the objects whose namespaces are in the slots.
func (s *slotSet) shard() object.Shard {
	var ranges []object.HashRange
	for i, in := range s {
		if in {
			ranges = append(ranges, Slot(i).hashes())
		}
	}
	return object.NewShard(object.ByNamespace, ranges...)
}

// released are the slots that a member has stopped working on, each with the epoch in which it
// was asked to.
type released map[Slot]uint64

// String returns the slots as they are stored, such as "3@17,4-9@20".
func (r released) String() string {
	var parts []string
	for from := 0; from < Slots; from++ {
		epoch, ok := r[Slot(from)]
		if !ok {
			continue
		}
		to := from
		for to+1 < Slots {
			if e, ok := r[Slot(to+1)]; !ok || e != epoch {
				break
			}
			to++
		}
		parts = append(parts, fmt.Sprintf("%s@%d", span{from, to}, epoch))
		from = to
	}
	return strings.Join(parts, ",")
}

func parseReleased(text string) (released, error) {
	r := released{}
	if text == "" {
		return r, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		slots, epoch, _ := strings.Cut(part, "@")
		s, err := parseSpan(slots)
		if err != nil {
			return nil, err
		}
		e, err := strconv.ParseUint(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("shard: the epoch of %q: %w", part, err)
		}
		for i := s.from; i <= s.to; i++ {
			r[Slot(i)] = e
		}
	}
	return r, nil
}
