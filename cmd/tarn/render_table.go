package main

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
)

// table prints lines with columns. Columns only ever get wider, since printed lines cannot
// change.
type table struct {
	rendering
	now     func() time.Time
	headers []string
	widths  []int
	begun   bool
}

func newTable(r rendering) *table {
	t := &table{rendering: r, now: time.Now}
	if len(r.resources) > 0 {
		// Fits the longest name, even if it first appears later.
		t.column("RESOURCE", max(12, len(slices.MaxFunc(r.resources, func(a, b string) int { return len(a) - len(b) }))))
	}
	if r.namespaces {
		t.column("NAMESPACE", 12)
	}
	t.column("NAME", 20)
	if !r.once {
		t.column("EVENT", 8)
	}
	t.column("AGE", 5)
	t.column("STATUS", 0)
	return t
}

func (t *table) column(name string, width int) {
	t.headers = append(t.headers, name)
	t.widths = append(t.widths, max(width, len(name)))
}

func (t *table) render(into *page, all []objectChange) error {
	rows := make([][]string, len(all))
	for i, h := range all {
		rows[i] = t.row(h)
		for c, cell := range rows[i] {
			t.widths[c] = max(t.widths[c], utf8.RuneCountInString(cell))
		}
	}
	if !t.begun {
		t.begun = true
		t.line(into, t.headers, bold)
	}
	for i, row := range rows {
		t.line(into, row, all[i].style())
	}
	return nil
}

func (t *table) row(h objectChange) []string {
	var row []string
	if len(t.resources) > 0 {
		row = append(row, plain(h.res.String()))
	}
	if t.namespaces {
		row = append(row, plain(h.key.Namespace))
	}
	row = append(row, plain(h.key.Name))
	if !t.once {
		word := h.eventType()
		if h.initial {
			word = "-"
		}
		row = append(row, word)
	}
	status := plain(summary(h.res, h.obj))
	if h.unseen {
		status = strings.TrimPrefix(status+" (last known)", ", ")
	}
	return append(row, t.age(h.obj), status)
}

// age returns the object's age in kubectl's format.
func (t *table) age(obj *unstructured.Unstructured) string {
	created := obj.GetCreationTimestamp()
	if created.IsZero() {
		return "?"
	}
	return duration.HumanDuration(max(t.now().Sub(created.Time), 0))
}

// line writes cells and pads all except the last.
func (t *table) line(into *page, cells []string, s style) {
	var b strings.Builder
	for c, cell := range cells {
		if c > 0 {
			b.WriteString("  ")
		}
		b.WriteString(cell)
		if c < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", t.widths[c]-utf8.RuneCountInString(cell)))
		}
	}
	into.in(s, strings.TrimRight(b.String(), " "))
	into.put("\n")
}
