package intern

// Stats describes what a table holds and how much of it was replaced.
type Stats struct {
	// Strings is how many strings are held, Limit how many can be.
	Strings, Limit int
	// Bytes is the length of the strings held, together.
	Bytes int
	// Taken counts the strings that were ever taken in; Displaced those of them that
	// were replaced by others. A Displaced that keeps growing means that the table is
	// too small for what repeats.
	Taken, Displaced uint64
}

// Stats counts what is held now. It walks the whole table; strings that are taken in or
// replaced meanwhile may or may not be counted.
func (t *Strings) Stats() Stats {
	if t == nil || t.most == 0 {
		return Stats{}
	}
	st := Stats{Limit: t.most * ways, Taken: t.taken.Load(), Displaced: t.displaced.Load()}
	t.all(func(s *string) {
		st.Strings++
		st.Bytes += len(*s)
	})
	return st
}

// all calls f for every entry.
func (t *table[E]) all(f func(*E)) {
	sets := *t.sets.Load()
	for i := range sets {
		for j := range sets[i].held {
			if e := sets[i].held[j].Load(); e != nil {
				f(e)
			}
		}
	}
}
