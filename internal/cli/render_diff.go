package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/internal/masking"
	"github.com/tarnproject/tarn/internal/objectdiff"
	"github.com/tarnproject/tarn/object"
)

// fieldEdits renders changes field by field. An added or deleted object is one line.
// Updates that change only noise are omitted.
type fieldEdits struct{ rendering }

// longText is the number of lines up to which texts are compared line by line.
const longText = 2000

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

// lineEdits returns a shortest edit script from old to new, without common lines.
func lineEdits(old, new []string) (edits []lineEdit) {
	for len(old) > 0 && len(new) > 0 && old[0] == new[0] {
		old, new = old[1:], new[1:]
	}
	for len(old) > 0 && len(new) > 0 && old[len(old)-1] == new[len(new)-1] {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	// common[i][j] is the length of the longest common subsequence of old[i:] and new[j:].
	// It is nil for long texts, which are shown as completely replaced.
	var common [][]int32
	if len(old) <= longText && len(new) <= longText {
		common = make([][]int32, len(old)+1)
		for i := range common {
			common[i] = make([]int32, len(new)+1)
		}
		for i := len(old) - 1; i >= 0; i-- {
			for j := len(new) - 1; j >= 0; j-- {
				if old[i] == new[j] {
					common[i][j] = common[i+1][j+1] + 1
				} else {
					common[i][j] = max(common[i+1][j], common[i][j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(old) || j < len(new) {
		switch {
		case common != nil && i < len(old) && j < len(new) && old[i] == new[j]:
			i, j = i+1, j+1
		case i < len(old) && (j == len(new) || common == nil || common[i+1][j] >= common[i][j+1]):
			edits = append(edits, lineEdit{'-', old[i]})
			i++
		default:
			edits = append(edits, lineEdit{'+', new[j]})
			j++
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
