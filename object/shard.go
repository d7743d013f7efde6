package object

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ShardBy is the field of an object whose [Hash] decides which shard it belongs to.
type ShardBy uint8

// The fields that Kubernetes can shard by. The zero ShardBy is none of them.
const (
	// ByUID divides objects evenly. An object that is deleted and created again may move to
	// another shard.
	ByUID ShardBy = iota + 1
	// ByNamespace keeps the objects of a namespace together. All cluster-scoped objects are in
	// one shard.
	ByNamespace
)

var shardFields = [...]string{"", "object.metadata.uid", "object.metadata.namespace"}

// String returns the field as a shard selector names it, such as "object.metadata.uid".
func (by ShardBy) String() string {
	if int(by) < len(shardFields) {
		return shardFields[by]
	}
	return ""
}

// HashRange is a range of hashes. First and Last are both part of it.
type HashRange struct{ First, Last uint64 }

// Bounds returns the range as a shard selector has it: the first hash, and the one after the last.
func (r HashRange) Bounds() (start, end string) {
	start, end = fmt.Sprintf("0x%016x", r.First), fmt.Sprintf("0x%016x", r.Last+1)
	if r.Last == math.MaxUint64 {
		end = "0x10000000000000000"
	}
	return start, end
}

// Shard is a part of the objects of a resource: those whose UID or namespace has a [Hash] in one of
// its ranges. It corresponds to the shardSelector of a list or watch request (KEP-5866). The zero
// Shard is no restriction and contains everything.
//
// A Shard is immutable. Two shards are equal (==) if and only if they contain the same hashes of the
// same field; the shard of all hashes is not the zero Shard.
type Shard struct {
	by ShardBy
	// ranges has First and Last of each range as big-endian numbers, in order. No two ranges
	// overlap or are adjacent. It is a string so that shards, and a Selection with one, compare.
	ranges string
}

const rangeSize = 16

// NewShard returns the shard of all objects with a hash in one of the ranges, which may overlap and
// be in any order. Adjacent ranges become one. Without ranges the shard contains nothing. It panics
// if by is neither [ByUID] nor [ByNamespace]; a range whose Last is before its First is empty.
func NewShard(by ShardBy, ranges ...HashRange) Shard {
	if by != ByUID && by != ByNamespace {
		panic("object: NewShard: want ByUID or ByNamespace")
	}
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r HashRange) bool { return r.Last < r.First })
	slices.SortFunc(sorted, func(a, b HashRange) int {
		if a.First < b.First {
			return -1
		}
		if a.First > b.First {
			return 1
		}
		return 0
	})
	merged := sorted[:0]
	for _, r := range sorted {
		if n := len(merged); n > 0 && (merged[n-1].Last == math.MaxUint64 || r.First <= merged[n-1].Last+1) {
			merged[n-1].Last = max(merged[n-1].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	text := make([]byte, 0, len(merged)*rangeSize)
	for _, r := range merged {
		text = binary.BigEndian.AppendUint64(text, r.First)
		text = binary.BigEndian.AppendUint64(text, r.Last)
	}
	return Shard{by: by, ranges: string(text)}
}

// Part returns one of n shards of equal size; i counts from 0. Together they contain everything, and
// no two of them overlap. It panics unless 0 <= i < n.
func Part(by ShardBy, i, n int) Shard {
	if i < 0 || i >= n {
		panic(fmt.Sprintf("object: part %d of %d: want 0 <= i < n", i, n))
	}
	first, _ := bits.Div64(uint64(i), 0, uint64(n)) // i × 2^64 / n
	last := uint64(math.MaxUint64)
	if i+1 < n {
		end, _ := bits.Div64(uint64(i+1), 0, uint64(n))
		last = end - 1
	}
	return NewShard(by, HashRange{First: first, Last: last})
}

// Hash returns the hash that shards are ranges of: 64-bit FNV-1a, as in Kubernetes' own sharding.
func Hash[S ~string | ~[]byte](text S) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}

// Equal is ==, for packages that compare values by their methods.
func (s Shard) Equal(other Shard) bool { return s == other }

// IsZero reports whether the shard is no restriction.
func (s Shard) IsZero() bool { return s == Shard{} }

// IsEmpty reports whether the shard contains nothing.
func (s Shard) IsEmpty() bool { return s.by != 0 && s.ranges == "" }

// By returns the field that the shard is a part by; 0 for the zero Shard.
func (s Shard) By() ShardBy { return s.by }

// Ranges returns the shard's ranges in order. They neither overlap nor touch.
func (s Shard) Ranges() iter.Seq[HashRange] {
	return func(yield func(HashRange) bool) {
		for i := range s.len() {
			if !yield(s.at(i)) {
				return
			}
		}
	}
}

func (s Shard) len() int { return len(s.ranges) / rangeSize }

func (s Shard) at(i int) HashRange {
	text := s.ranges[i*rangeSize : (i+1)*rangeSize]
	return HashRange{First: beUint64(text[:8]), Last: beUint64(text[8:])}
}

// beUint64 reads a big-endian number without an allocation.
func beUint64(s string) uint64 {
	_ = s[7]
	return uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
		uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7])
}

// Contains reports whether an object with this UID and namespace belongs to the shard. It does not
// allocate.
func (s Shard) Contains(uid UID, namespace string) bool {
	switch s.by {
	case ByUID:
		return s.ContainsHash(Hash(uid))
	case ByNamespace:
		return s.ContainsHash(Hash(namespace))
	}
	return true
}

// ContainsHash reports whether a hash is in one of the shard's ranges. The zero Shard contains all.
func (s Shard) ContainsHash(hash uint64) bool {
	if s.IsZero() {
		return true
	}
	low, high := 0, s.len() // the last range that begins at or before the hash is below high
	for low < high {
		if mid := (low + high) / 2; s.at(mid).First <= hash {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low > 0 && hash <= s.at(low-1).Last
}

// Minus returns what s contains and other does not; comparable is false if the two are by different
// fields. Nothing is left of any shard without the zero Shard, which contains everything.
func (s Shard) Minus(other Shard) (rest Shard, comparable bool) {
	switch {
	case other.IsZero():
		return NewShard(max(s.by, ByUID)), true
	case s.by != other.by:
		return Shard{}, false
	}
	var left []HashRange
	for r := range s.Ranges() {
		open := true
		for o := range other.Ranges() {
			if o.Last < r.First || o.First > r.Last {
				continue
			}
			if o.First > r.First {
				left = append(left, HashRange{First: r.First, Last: o.First - 1})
			}
			if o.Last >= r.Last {
				open = false
				break
			}
			r.First = o.Last + 1
		}
		if open {
			left = append(left, r)
		}
	}
	return NewShard(s.by, left...), true
}

// Covers reports whether s contains everything that other does, as far as their ranges show.
func (s Shard) Covers(other Shard) bool {
	rest, ok := other.Minus(s)
	return ok && rest.IsEmpty()
}

// Selector returns the shard as the shardSelector of a request, in the form in which the server
// repeats it; "" for the zero Shard. A selector cannot express a shard without ranges: its selector
// has the range of the hash 0 only, so the receiver has to apply [Shard.Contains] too.
func (s Shard) Selector() string {
	if s.IsZero() {
		return ""
	}
	ranges := slices.Collect(s.Ranges())
	if len(ranges) == 0 {
		ranges = []HashRange{{}}
	}
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteString(" || ")
		}
		start, end := r.Bounds()
		fmt.Fprintf(&b, "shardRange(%s, '%s', '%s')", s.by, start, end)
	}
	return b.String()
}

// String returns the field and the share of all hashes, such as "20.3 % by object.metadata.uid".
func (s Shard) String() string {
	if s.IsZero() {
		return "everything"
	}
	var share float64
	for r := range s.Ranges() {
		share += float64(r.Last-r.First) + 1
	}
	return fmt.Sprintf("%.1f %% by %s", share/math.MaxUint64*100, s.by)
}

// ErrShard is wrapped by every error of [ParseRanges].
var ErrShard = errors.New("object: not a shard selector")

// ParseRanges parses a shard selector: one or more shardRange(FIELD, 'START', 'END') joined with
// ||, all of the same field. It returns the ranges as they are written; [NewShard] makes them a
// shard. It accepts what a Kubernetes API server does, except parentheses around expressions and
// the escape sequences of CEL strings.
func ParseRanges(selector string) (ShardBy, []HashRange, error) {
	var by ShardBy
	var ranges []HashRange
	for _, term := range strings.Split(selector, "||") {
		field, r, err := parseRange(strings.TrimSpace(term))
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrShard, err)
		}
		if by != 0 && by != field {
			return 0, nil, fmt.Errorf("%w: all shard ranges must use the same field, got %q and %q", ErrShard, by, field)
		}
		by, ranges = field, append(ranges, r)
	}
	return by, ranges, nil
}

func parseRange(term string) (ShardBy, HashRange, error) {
	name, rest, _ := strings.Cut(term, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	switch name = strings.TrimSpace(name); {
	case closed && name != "shardRange":
		return 0, HashRange{}, fmt.Errorf("unsupported function %q; only shardRange() and || are allowed", name)
	case !closed && rest == "" && isIdentifier(name):
		// 3 is what kube-apiserver's parser of CEL has for an identifier.
		return 0, HashRange{}, errors.New("unexpected expression kind 3; expected shardRange() call or || operator")
	case !closed:
		return 0, HashRange{}, fmt.Errorf("%q; want shardRange(FIELD, 'START', 'END')", term)
	}
	args := strings.Split(inner, ",")
	if len(args) != 3 {
		return 0, HashRange{}, fmt.Errorf("shardRange() requires exactly 3 arguments, got %d", len(args))
	}
	by := ShardBy(max(0, slices.Index(shardFields[:], strings.TrimSpace(args[0]))))
	if by == 0 {
		return 0, HashRange{}, fmt.Errorf("unsupported field path %q; supported: %s, %s", strings.TrimSpace(args[0]), ByUID, ByNamespace)
	}
	first, over, err := parseBound("hexStart", args[1])
	if err != nil {
		return 0, HashRange{}, err
	}
	end, all, err := parseBound("hexEnd", args[2])
	if err != nil {
		return 0, HashRange{}, err
	}
	if over || !all && first >= end {
		return 0, HashRange{}, fmt.Errorf("shard range start %s must be less than end %s", strings.Trim(args[1], ` '"`), strings.Trim(args[2], ` '"`))
	}
	return by, HashRange{First: first, Last: end - 1}, nil // 2^64 is 0, and 0 - 1 the last hash
}

// isIdentifier reports whether a text is a CEL identifier.
func isIdentifier(text string) bool {
	const letters = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return text != "" && strings.Contains(letters, text[:1]) && strings.Trim(text, letters+"0123456789") == ""
}

// parseBound parses a quoted bound. For 2^64, which only an end can be, it returns 0 and true. The
// errors are those of kube-apiserver.
func parseBound(name, arg string) (bound uint64, over bool, err error) {
	text := strings.TrimSpace(arg)
	n := len(text)
	if n < 2 || text[0] != text[n-1] || text[0] != '\'' && text[0] != '"' {
		return 0, false, fmt.Errorf("%s must be a string literal (e.g. '0xff'), got %s", name, text)
	}
	text = text[1 : n-1]
	digits, hex := strings.CutPrefix(text, "0x")
	odd := strings.TrimLeft(digits, "0123456789abcdef")
	switch {
	case !hex:
		return 0, false, fmt.Errorf("%s must have '0x' prefix, got %q", name, text)
	case digits == "":
		return 0, false, fmt.Errorf("%s: hex value is required after '0x'", name)
	case len(digits) > 17:
		return 0, false, fmt.Errorf("%s: hex value too long (%d chars, max 17): %q", name, len(digits), digits)
	case odd != "":
		first, _ := utf8.DecodeRuneInString(odd)
		return 0, false, fmt.Errorf("%s: invalid hex character %q in %q", name, string(first), text)
	case text == "0x10000000000000000":
		return 0, true, nil
	case len(digits) == 17:
		return 0, false, fmt.Errorf("%s: 17-digit hex value must be '0x10000000000000000' (2^64), got %q", name, text)
	case len(digits) < 16:
		return 0, false, fmt.Errorf("%s must be a 0x-prefixed 16-digit hex value, got %q (did you mean %q?)", name, text, "0x"+strings.Repeat("0", 16-len(digits))+digits)
	}
	bound, err = strconv.ParseUint(digits, 16, 64)
	return bound, false, err
}
