package intern

const (
	// MaxLength is the length in bytes up to which a string is shared. Longer ones
	// are seldom equal, and would cost as much to compare as to copy.
	MaxLength = 128

	// DefaultLimit is the number of strings that a table holds by default:
	// at most 3 MB including the table itself.
	DefaultLimit = 1 << 14
)

// Strings is a bounded table of strings that repeat. The zero Strings and the nil one
// hold nothing and copy everything; use [NewStrings]. All methods may be called from
// any number of goroutines.
//
// A string is taken in when it comes for the second time, and found from the third on.
// In a full table it replaces the least used of the strings in its place.
type Strings struct{ table[string] }

// NewStrings returns a table of at most limit strings of at most [MaxLength] bytes.
// A limit of zero or less is [DefaultLimit]; others are rounded down to a power of two,
// and four is the least.
func NewStrings(limit int) *Strings {
	if limit <= 0 {
		limit = DefaultLimit
	}
	t := &Strings{}
	t.init(limit)
	return t
}

// Bytes returns a string equal to b: the table's own where b repeats, else a copy. It
// never keeps b.
func (t *Strings) Bytes(b []byte) string {
	if s, ok := t.Lookup(b); ok {
		return s
	}
	return string(b)
}

// Lookup returns the table's string equal to b if it holds one. It is for callers that
// copy other strings in their own way, and that learn whether lookups pay. It never
// keeps b.
func (t *Strings) Lookup(b []byte) (string, bool) {
	if len(b) <= 1 {
		return string(b), true // the runtime does not allocate these
	}
	if t == nil || len(b) > MaxLength || t.most == 0 {
		return "", false
	}
	set, mark := t.at(t.hash(b))
	for i := set.next(mark, 0); i < ways; i = set.next(mark, i+1) {
		if p := set.held[i].Load(); p != nil && *p == string(b) {
			set.use(i)
			return *p, true
		}
	}
	seen, small := t.again(set, mark)
	switch {
	case seen:
		s := string(b)
		t.put(set, mark, &s)
	case small:
		t.grow(func(s *string) string { return *s })
	}
	return "", false
}
