package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/tarnproject/tarn/internal/masking"
	"github.com/tarnproject/tarn/internal/objectdiff"
	"github.com/tarnproject/tarn/object"
)

// fieldEdits renders changes field by field. An added or deleted object is one line.
// Updates that change only noise are omitted.
type fieldEdits struct{ rendering }

func (d fieldEdits) render(into *page, all []objectChange) error {
	for _, h := range all {
		switch {
		case h.initial:
		case h.kind == object.Added:
			d.head(into, h, "+", "")
		case h.kind == object.Deleted && h.unseen:
			d.head(into, h, "-", " (the deletion event was missed)")
		case h.kind == object.Deleted:
			d.head(into, h, "-", "")
		default:
			d.update(into, h)
		}
	}
	return nil
}

func (d fieldEdits) head(into *page, h objectChange, sign, note string) {
	into.in(bold+";"+h.style(), sign+" "+plain(h.name()))
	into.put(note + "\n")
}

func (d fieldEdits) update(into *page, h objectChange) {
	edits := objectdiff.Diff(h.old.Object, h.obj.Object)
	if !d.noise {
		edits = slices.DeleteFunc(edits, noisy)
	}
	if len(edits) == 0 {
		return
	}
	d.head(into, h, "~", "")
	hide := !d.showSecrets && isSecret(h.res, h.obj)
	var copies []string
	if hide {
		copies = append(masking.Copies(h.old.Object), masking.Copies(h.obj.Object)...)
	}
	for _, e := range edits {
		d.edit(into, e, hide && masking.Path(e.Path.Fields(), copies))
	}
}

// noisy reports whether every write makes this edit.
func noisy(e objectdiff.Edit) bool {
	names := e.Path.Fields()
	return len(names) >= 2 && names[0] == "metadata" && (names[1] == "managedFields" || names[1] == "resourceVersion")
}

func (d fieldEdits) edit(into *page, e objectdiff.Edit, hide bool) {
	path := plain(e.Path.String())
	oldText, newText := hidden, hidden
	if !hide {
		oldText, newText = valueText(e.Old), valueText(e.New)
	}
	switch {
	case e.Old == objectdiff.Absent{}:
		into.in(green, "  + "+path+": "+newText)
	case e.New == objectdiff.Absent{}:
		into.in(red, "  - "+path+": "+oldText)
	case hide:
		into.put("    ")
		into.in(cyan, path)
		into.put(": " + hidden + " (changed)")
	case d.lines(into, path, e):
		return
	default:
		into.put("    ")
		into.in(cyan, path)
		into.put(": ")
		into.in(red, oldText)
		into.put(" → ")
		into.in(green, newText)
	}
	into.put("\n")
}

// lines renders the difference of two multi-line strings line by line. It returns false if
// they are not multi-line.
func (d fieldEdits) lines(into *page, path string, e objectdiff.Edit) bool {
	oldText, isOld := e.Old.(string)
	newText, isNew := e.New.(string)
	if !isOld || !isNew || !strings.Contains(oldText, "\n") && !strings.Contains(newText, "\n") {
		return false
	}
	split := func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
	edits := lineEdits(split(oldText), split(newText))
	if len(edits) == 0 { // only the trailing newline differs
		return false
	}
	into.put("    ")
	into.in(cyan, path)
	into.put(":\n")
	for _, l := range edits {
		s := green
		if l.sign == '-' {
			s = red
		}
		into.in(s, "      "+string(l.sign)+" "+plain(l.text))
		into.put("\n")
	}
	return true
}

// lineEdit is an added or removed line.
type lineEdit struct {
	sign rune
	text string
}

// lineEdits returns the edits that lead from old to new, without common lines.
func lineEdits(old, new []string) (edits []lineEdit) {
	for _, c := range difflib.NewMatcher(old, new).GetOpCodes() {
		if c.Tag == 'e' {
			continue
		}
		for _, line := range old[c.I1:c.I2] {
			edits = append(edits, lineEdit{'-', line})
		}
		for _, line := range new[c.J1:c.J2] {
			edits = append(edits, lineEdit{'+', line})
		}
	}
	return edits
}

// valueText formats a value: plain words without quotes, everything else as JSON.
func valueText(v any) string {
	if s, ok := v.(string); ok && bareWord(s) {
		return s
	}
	text, err := jsonText(v)
	if err != nil {
		return plain(fmt.Sprint(v))
	}
	return text
}

// bareWord reports whether a string can be shown without quotes because it does not look
// like another JSON value.
func bareWord(s string) bool {
	if s == "" || json.Valid([]byte(s)) || plain(s) != s {
		return false
	}
	return !strings.ContainsAny(s, " \"'→")
}
