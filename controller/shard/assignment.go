package shard

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/object"
)

// assignment is what the group's lease says. It is not changed once another goroutine or a view has it.
type assignment struct {
	slots placements
	// rules identify how the owners divide keys (Options.Rules and Ranges). A member with other rules does not
	// work. They change only while no member works on any slot.
	rules string
	// line is a random text. The member that writes an assignment in place of none, or of one that cannot be
	// read, chooses it, and later ones keep it.
	line string
	// duration is the longest LeaseDuration of the owners.
	duration time.Duration
	// written is what the earlier owners of slots wrote lately. A new owner does not work before
	// its caches have it.
	written versions
}

// rulesOf returns the rules of a process. Members that have another number of slots differ, too.
func rulesOf(text string, ranges bool) string {
	return strconv.FormatUint(object.Hash(fmt.Sprintf("%d %v %s", Slots, ranges, text)), 16)
}

// What the leases say about writes; see package handover.
type (
	versions = handover.Versions
	part     = handover.Part
	history  = handover.History
)

// covered reports whether a cache with a shard receives the changes of the part.
func covered(p part, shard object.Shard) bool {
	n, err := strconv.ParseUint(p.Slot, 10, 8)
	return err != nil || shard.ContainsHash(Slot(n).hashes().First)
}

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

// placements are those of all slots.
type placements [Slots]placement

// String returns the placements as they are stored: a line for each run of equal ones, such as
// "0-15 web-a#1>web-b@3".
func (a *placements) String() string {
	var b strings.Builder
	for s, p := range runs(func(slot Slot) placement { return a[slot] }) {
		fmt.Fprintf(&b, "%s %s\n", s, p)
	}
	return b.String()
}

// parsePlacements is the inverse of [placements.String]. The text must name every slot once.
func parsePlacements(text string) (a placements, err error) {
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
	for run, in := range runs(func(slot Slot) bool { return s[slot] }) {
		if in {
			parts = append(parts, run.String())
		}
	}
	return strings.Join(parts, ",")
}

// parseSlots is the inverse of [slotSet.String]. It ignores parts that it cannot read.
func parseSlots(text string) (s slotSet) {
	for slot := range slotsIn(text) {
		s[slot] = true
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
	for run, epoch := range runs(func(slot Slot) uint64 { return r[slot] }) {
		if epoch > 0 {
			parts = append(parts, fmt.Sprintf("%s@%d", run, epoch))
		}
	}
	return strings.Join(parts, ",")
}

// parseReleased is the inverse of [released.String]. It ignores parts that it cannot read.
func parseReleased(text string) released {
	r := released{}
	for slot, epoch := range slotsIn(text) {
		if e, err := strconv.ParseUint(epoch, 10, 64); err == nil {
			r[slot] = e
		}
	}
	return r
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

// runs returns the runs of slots with equal values.
func runs[V comparable](of func(Slot) V) iter.Seq2[span, V] {
	return func(yield func(span, V) bool) {
		for from := 0; from < Slots; {
			to, value := from, of(Slot(from))
			for to+1 < Slots && of(Slot(to+1)) == value {
				to++
			}
			if !yield(span{from, to}, value) {
				return
			}
			from = to + 1
		}
	}
}

// slotsIn returns the slots of a text such as "3@17,4-9@20", each with what follows the "@". It ignores parts
// that it cannot read.
func slotsIn(text string) iter.Seq2[Slot, string] {
	return func(yield func(Slot, string) bool) {
		for part := range strings.SplitSeq(text, ",") {
			slots, rest, _ := strings.Cut(part, "@")
			run, err := parseSpan(slots)
			for i := run.from; err == nil && i <= run.to; i++ {
				if !yield(Slot(i), rest) {
					return
				}
			}
		}
	}
}
