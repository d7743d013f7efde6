package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Row is one line of the table.
type Row struct {
	// Measure is the name of the row. The number is that of the target; rows with a plus
	// sign have none.
	Measure string
	// Peer is the other side, if not client-go. Its figure is in ClientGo.
	Peer string
	// ClientGo and Tarn are the results; nil for a side without this operation.
	ClientGo *Figure
	Tarn     *Figure
	// Ratio is client-go's value divided by Tarn's: above 1 Tarn is better. It is 0 if
	// either is missing.
	Ratio float64
	// Target is the target of the ratio or the value, if any.
	Target string
	// Met reports whether the target is met; nil without a target.
	Met *bool
}

// Figure is the result of one side of a measure.
type Figure struct {
	Value float64
	Unit  Unit
	// Rounds are the values of the rounds; Value is their median or least.
	Rounds []float64
	// Counted reports whether Allocs and Bytes, per operation, were counted.
	Counted bool
	Allocs  float64
	Bytes   float64
	// Note is an additional remark.
	Note string
}

// Unit is the unit of a figure.
type Unit string

// The units.
const (
	Nanoseconds Unit = "ns"
	Bytes       Unit = "B"
	Times       Unit = "×"
	Count       Unit = ""
)

// String returns the figure as the table shows it.
func (f *Figure) String() string {
	if f == nil {
		return "–"
	}
	var b strings.Builder
	b.WriteString(quantity(f.Value, f.Unit))
	if f.Counted {
		fmt.Fprintf(&b, ", %s allocs", number(f.Allocs))
		if f.Allocs >= noise {
			fmt.Fprintf(&b, ", %s", quantity(f.Bytes, Bytes))
		}
	}
	if f.Note != "" {
		fmt.Fprintf(&b, " (%s)", f.Note)
	}
	return b.String()
}

// noise is the number of allocations per operation that counts as none: the runtime makes a few
// itself during a round.
const noise = 0.05

func quantity(v float64, unit Unit) string {
	steps := []struct {
		from, by float64
		name     string
	}{{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {1e3, 1e3, "µs"}, {0, 1, "ns"}}
	switch unit {
	case Bytes:
		steps[0].name, steps[1].name, steps[2].name, steps[3].name = "GB", "MB", "kB", "B"
	case Times:
		return number(v) + "×"
	case Count:
		return number(v)
	}
	for _, s := range steps {
		if v >= s.from {
			return number(v/s.by) + " " + s.name
		}
	}
	return number(v) + " " + string(unit)
}

// number prints about three digits.
func number(v float64) string {
	switch {
	case v == math.Trunc(v) && v < 1e6, v >= 100:
		return thousands(v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v < 0.005:
		return "0"
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// goal is a condition that a row should meet.
type goal struct {
	text string
	met  func(*Row) bool
}

func faster(times float64) goal {
	return goal{fmt.Sprintf("%s× faster", number(times)), func(r *Row) bool { return r.Ratio >= times }}
}

func notSlower() goal {
	return goal{"not slower", func(r *Row) bool { return r.Ratio >= 1 }}
}

func better(times float64, word string) goal {
	return goal{fmt.Sprintf("%s× %s", number(times), word), func(r *Row) bool { return r.Ratio >= times }}
}

// costs is an upper bound of Tarn's value relative to the other.
func costs(times float64, word string) goal {
	return goal{fmt.Sprintf("at most %s× %s", number(times), word), func(r *Row) bool { return r.Ratio*times >= 1 }}
}

// under is an upper bound of Tarn's value.
func under(value float64, unit Unit) goal {
	return goal{"under " + quantity(value, unit), func(r *Row) bool { return r.Tarn.Value < value }}
}

func atMost(value float64, unit Unit) goal {
	return goal{"at most " + quantity(value, unit), func(r *Row) bool { return r.Tarn.Value <= value }}
}

func noAllocs() goal {
	return goal{"0 allocs", func(r *Row) bool { return r.Tarn.Allocs < noise }}
}

func allocsAtMost(n float64) goal {
	return goal{fmt.Sprintf("at most %s allocs", number(n)), func(r *Row) bool { return r.Tarn.Allocs < n+noise }}
}

// fewAllocs is a bound per object, for operations on all objects.
func fewAllocs(objects int) goal {
	return goal{"under 1 alloc per 100 objects", func(r *Row) bool { return r.Tarn.Allocs < float64(objects)/100 }}
}

func halfTheAllocs() goal {
	return goal{"half the allocs", func(r *Row) bool { return r.Tarn.Allocs <= r.ClientGo.Allocs/2 }}
}

func fewerAllocs() goal {
	return goal{"fewer allocs", func(r *Row) bool { return r.Tarn.Allocs < r.ClientGo.Allocs }}
}

// shareOfMemory is a bound of Tarn's value as a fraction of client-go's.
func shareOfMemory(part float64) goal {
	return goal{fmt.Sprintf("%s× the memory or less (ratio %s)", number(part), number(1/part)), func(r *Row) bool {
		return r.Tarn.Value <= part*r.ClientGo.Value
	}}
}

// newRow returns a row of two figures, either of which may be nil, and evaluates its goals.
func newRow(measure string, clientGo, tarn *Figure, goals ...goal) Row {
	r := Row{Measure: measure, ClientGo: clientGo, Tarn: tarn}
	if clientGo != nil && tarn != nil && tarn.Value > 0 {
		r.Ratio = clientGo.Value / tarn.Value
	}
	if len(goals) == 0 {
		return r
	}
	met := true
	var texts []string
	for _, g := range goals {
		texts = append(texts, g.text)
		met = met && g.met(&r)
	}
	r.Target, r.Met = strings.Join(texts, ", "), &met
	return r
}

// beside sets the peer of a row.
func beside(peer string, r Row) Row {
	r.Peer = peer
	return r
}

func (r Row) cells() []string {
	first, ratio, met := r.ClientGo.String(), "", ""
	if r.Peer != "" {
		first = r.Peer + ": " + first
	}
	if r.Ratio > 0 {
		ratio = number(r.Ratio) + "×"
	}
	if r.Met != nil {
		met = map[bool]string{true: "yes", false: "no"}[*r.Met]
	}
	return []string{r.Measure, first, r.Tarn.String(), ratio, r.Target, met}
}

// writeTable prints the rows as a Markdown table with aligned columns.
func writeTable(w io.Writer, rows []Row) error {
	lines := [][]string{{"measure", "client-go", "tarn", "ratio", "target", "met?"}, nil}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, width := range widths {
		lines[1] = append(lines[1], strings.Repeat("-", width))
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// writeRounds prints one line per row, side and round in the format of go test -bench.
func writeRounds(w io.Writer, rows []Row) error {
	units := map[Unit]string{Nanoseconds: "ns/op", Bytes: "B", Times: "x", Count: "count"}
	for _, r := range rows {
		for _, f := range []*Figure{r.ClientGo, r.Tarn} {
			if f == nil {
				continue
			}
			side, rounds := sideTarn, f.Rounds
			if f == r.ClientGo {
				side = cmp.Or(r.Peer, sideClientGo)
			}
			if len(rounds) == 0 {
				rounds = []float64{f.Value}
			}
			for _, v := range rounds {
				line := fmt.Sprintf("Benchmark%s/side=%s 1 %g %s", strings.ReplaceAll(r.Measure, " ", "_"), side, v, units[f.Unit])
				if f.Counted {
					line += fmt.Sprintf(" %g B/op %g allocs/op", f.Bytes, f.Allocs)
				}
				if _, err := fmt.Fprintln(w, line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
