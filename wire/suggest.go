package wire

import (
	"cmp"
	"slices"
	"strings"
)

// maxSuggestions is the maximum number of suggestions in an error.
const maxSuggestions = 3

// suggest returns the resource names that are closest to an unknown one, the closest first. A
// qualified name is compared with qualified names, and its first part with unqualified ones,
// because the group may be wrong.
func suggest(all []Discovered, name string) []string {
	name = strings.ToLower(name)
	word, _, qualified := strings.Cut(name, ".")
	limit := min(max(1, len(word)/3), 3)

	groups := map[string]map[string]bool{} // by plural; with one group, the plural is unambiguous
	for _, r := range all {
		if groups[r.Resource.Resource] == nil {
			groups[r.Resource.Resource] = map[string]bool{}
		}
		groups[r.Resource.Resource][r.Group] = true
	}

	type candidate struct {
		name     string
		distance int
	}
	best := map[string]int{}
	for _, r := range all {
		distance := limit + 1
		names := append([]string{r.Resource.Resource, r.Singular, strings.ToLower(r.Kind)}, r.ShortNames...)
		for i, n := range names {
			// Short names of two letters are similar to any other two letters.
			if n == "" || (i > 2 && len(n) < 3) {
				continue
			}
			distance = min(distance, editDistance(word, n, limit))
			if qualified {
				distance = min(distance, editDistance(name, n+"."+r.Group, limit))
			}
		}
		if distance > limit {
			continue
		}
		show := r.Resource.Resource
		if qualified || len(groups[show]) > 1 {
			show = r.Resource.String()
		}
		if old, ok := best[show]; !ok || distance < old {
			best[show] = distance
		}
	}

	var found []candidate
	for name, distance := range best {
		found = append(found, candidate{name, distance})
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range found {
		// Only names that are almost as close as the closest.
		if len(out) == maxSuggestions || c.distance > found[0].distance+1 {
			break
		}
		out = append(out, c.name)
	}
	return out
}

// editDistance returns the number of insertions, deletions, replacements and swaps of adjacent
// letters that turn a into b, or limit+1 if it is larger than limit.
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	// Three rows of the table, because a swap needs the row before the last.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		lowest := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			lowest = min(lowest, row[j])
		}
		if lowest > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit+1)
}
