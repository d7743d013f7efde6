package protodec

import (
	"encoding/binary"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/soak"
)

// node is one field of a message that has been taken apart.
type node struct {
	tag     uint64
	scalar  []byte  // of a field without a length, with a length for unknown reasons
	content []byte  // of a field with a length
	inner   []*node // of a field that looks like a message
}

// parse takes a message apart, and guesses which of its fields are messages.
func parse(raw []byte, depth int) ([]*node, bool) {
	var nodes []*node
	for i := 0; i < len(raw); {
		tag, start := varint(raw, i)
		if start < 0 || tag>>3 == 0 || tag>>3 > maxNumber {
			return nil, false
		}
		next := skip(raw, i)
		if next < 0 || tag&7 == wireGroup {
			return nil, false
		}
		n := &node{tag: tag}
		if tag&7 == wireBytes {
			from, to := span(raw, start)
			n.content = raw[from:to]
			if depth > 0 && to > from {
				n.inner, _ = parse(n.content, depth-1)
			}
		} else {
			n.scalar = raw[start:next]
		}
		nodes = append(nodes, n)
		i = next
	}
	return nodes, true
}

func encode(nodes []*node) []byte {
	var raw []byte
	for _, n := range nodes {
		raw = binary.AppendUvarint(raw, n.tag)
		if n.tag&7 != wireBytes || n.scalar != nil {
			raw = append(raw, n.scalar...)
			continue
		}
		content := n.content
		if n.inner != nil {
			content = encode(n.inner)
		}
		raw = binary.AppendUvarint(raw, uint64(len(content)))
		raw = append(raw, content...)
	}
	return raw
}

// unknowns are fields that no type has, of every wire type.
var unknowns = [][]byte{
	{0xf8, 0xff, 0x03, 0x96, 0x01},                         // varint
	{0xf9, 0xff, 0x03, 1, 2, 3, 4, 5, 6, 7, 8},             // fixed64
	{0xfa, 0xff, 0x03, 0x02, 'h', 'i'},                     // bytes
	{0xfb, 0xff, 0x03, 0x08, 0x01, 0xfc, 0xff, 0x03},       // group
	{0xfb, 0xff, 0x03, 0x0b, 0x02, 0x05, 0x0c, 0x14},       // group that is not sound
	{0xfb, 0xff, 0x03, 0x0b, 0x12, 0x01, 0x05, 0x0c, 0x14}, // groups with other ends
	{0xfd, 0xff, 0x03, 1, 2, 3, 4},                         // fixed32
	{0xfc, 0xff, 0x03},                                     // end of no group
	{0xfe, 0xff, 0x03}, {0xff, 0xff, 0x03},                 // no wire types
	{0x00, 0x01}, {0x02, 0x00}, // number zero
	{0x8a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01, 'x'},  // field 1, spelt out
	{0x8a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00}, // beyond 64 bits
	{0x8a, 0x80, 0x80, 0x80, 0x80, 0x01, 0x01, 'y'},                          // field 1 and more than 32 bits
	{0x80, 0x80, 0x80, 0x80, 0x40, 0x01},                                     // a negative number
}

// mutate changes one thing somewhere in the message.
func mutate(rng *rand.Rand, nodes []*node) []*node {
	if len(nodes) == 0 {
		return append(nodes, &node{tag: 1<<3 | wireBytes, scalar: slices.Clone([]byte{0})})
	}
	at := rng.Intn(len(nodes))
	n := nodes[at]
	if n.inner != nil && rng.Intn(4) > 0 {
		inner := *n
		inner.inner = mutate(rng, slices.Clone(n.inner))
		nodes[at] = &inner
		return nodes
	}
	switch rng.Intn(10) {
	case 0: // the same again, right behind
		return slices.Insert(nodes, at, n)
	case 1: // the same again, at the end
		return append(nodes, n)
	case 2: // without
		return slices.Delete(nodes, at, at+1)
	case 3: // elsewhere
		other := rng.Intn(len(nodes))
		nodes[at], nodes[other] = nodes[other], nodes[at]
	case 4: // with another node's contents, in both places
		other := nodes[rng.Intn(len(nodes))]
		nodes[at] = &node{tag: n.tag, content: other.content, inner: other.inner, scalar: other.scalar}
	case 5: // something unknown before it
		raw := unknowns[rng.Intn(len(unknowns))]
		tag, start := varint(raw, 0)
		if start < 0 {
			tag, start = 0, 1
		}
		return slices.Insert(nodes, at, &node{tag: tag, scalar: append([]byte{}, raw[start:]...)})
	case 6: // another number or wire type
		nodes[at] = &node{tag: n.tag ^ 1<<rng.Intn(6), content: n.content, scalar: n.scalar}
	case 7: // cut
		if len(n.content) > 0 {
			nodes[at] = &node{tag: n.tag, content: n.content[:rng.Intn(len(n.content))]}
		}
	case 8: // emptied
		if n.tag&7 == wireBytes {
			nodes[at] = &node{tag: n.tag, content: []byte{}}
		}
	case 9: // a length that is wrong
		if n.tag&7 == wireBytes {
			wrong := binary.AppendUvarint(nil, uint64(len(n.content)+rng.Intn(5)-2))
			nodes[at] = &node{tag: n.tag, scalar: append(wrong, n.content...)}
		}
	}
	return nodes
}

// mangle returns raw with something done to it.
func mangle(rng *rand.Rand, raw, other []byte) []byte {
	switch kind := rng.Intn(10); {
	case kind < 6:
		nodes, ok := parse(raw, 8)
		if !ok {
			return raw
		}
		for range 1 + rng.Intn(3) {
			nodes = mutate(rng, nodes)
		}
		return encode(nodes)
	case kind == 6: // two messages merged
		return slices.Concat(raw, other)
	case kind == 7 && len(raw) > 0:
		return raw[:rng.Intn(len(raw))]
	case kind == 8:
		return slices.Concat(raw, unknowns[rng.Intn(len(unknowns))])
	case len(raw) > 0:
		out := slices.Clone(raw)
		for range 1 + rng.Intn(3) {
			out[rng.Intn(len(out))] ^= 1 << rng.Intn(8)
		}
		return out
	}
	return raw
}

func TestMangledMessagesFareAsGenerated(t *testing.T) {
	rounds := soak.Rounds(2)
	fill, rng := decodertest.Filler(2), rand.New(rand.NewSource(2))
	accepted, refused := 0, 0
	for _, typ := range soak.Part(kinds()) {
		l := newLineup(t, typ)
		var other []byte
		for range rounds {
			raw, err := sample(typ, fill)
			if err != nil {
				t.Fatal(err)
			}
			// The tables know the parts of the whole object when the mangled one comes.
			l.check(t, raw)
			for range 4 {
				if l.check(t, mangle(rng, raw, other)) {
					accepted++
				} else {
					refused++
				}
			}
			other = raw
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < refused/4 || refused < accepted/20 {
		t.Errorf("the mixture is one-sided: %d accepted, %d refused", accepted, refused)
	}
}

func FuzzDecodeAsGenerated(f *testing.F) {
	all := kinds()
	lineups := map[reflect.Type]*lineup{}
	fill := decodertest.Filler(3)
	for i := 0; i < len(all); i += 8 { // a fuzzer that begins with all of them never begins
		if raw, err := sample(all[i], fill); err == nil && len(raw) < 2_000 {
			f.Add(uint16(i), raw)
		}
	}
	pod := slices.Index(all, reflect.TypeFor[corev1.Pod]())
	for _, raw := range unknowns {
		f.Add(uint16(pod), raw)
	}
	f.Fuzz(func(t *testing.T, kind uint16, raw []byte) {
		typ := all[int(kind)%len(all)]
		l := lineups[typ]
		if l == nil {
			l = newLineup(t, typ)
			lineups[typ] = l
		}
		l.check(t, raw)
	})
}
