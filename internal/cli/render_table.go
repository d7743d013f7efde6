package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/tarnproject/tarn/object"
)

// table prints rows with the printer of kubectl. Columns only ever get wider, since printed lines
// cannot change.
type table struct {
	rendering
	sheets map[object.Resource]*sheet
	last   *sheet
}

// sheet is the table of one resource. Another one starts with its headers again.
type sheet struct {
	text    bytes.Buffer
	columns interface { // aligns columns and remembers their widths
		io.Writer
		Flush() error
	}
	printer printers.ResourcePrinter
}

func (t *table) render(into *page, all []objectChange) error {
	for len(all) > 0 {
		// Rows of one resource with the same columns are printed at once, to be aligned.
		var rows []*tableRow
		for _, h := range all {
			row := h.row
			if h.res != all[0].res || len(rows) > 0 && !slices.Equal(row.columns, rows[0].columns) {
				break
			}
			rows = append(rows, row)
		}
		if err := t.print(into, all[:len(rows)], rows); err != nil {
			return err
		}
		all = all[len(rows):]
	}
	return nil
}

// print prints rows with the same columns.
func (t *table) print(into *page, all []objectChange, rows []*tableRow) error {
	res := all[0].res
	s := t.sheets[res]
	if s == nil {
		s = &sheet{}
		s.columns = printers.GetNewTabWriter(&s.text)
		t.sheets[res] = s
	}
	if t.last != s {
		if t.last != nil {
			into.put("\n")
		}
		s.printer = printers.NewTablePrinter(printers.PrintOptions{
			Wide: t.output == "wide", WithKind: t.several, Kind: schema.GroupKind{Group: res.Group, Kind: res.Kind},
		})
		t.last = s
	}
	var lead []metav1.TableColumnDefinition
	event, namespace := !t.once, t.namespaces && res.Namespaced
	if event {
		lead = append(lead, metav1.TableColumnDefinition{Name: "Event", Type: "string"})
	}
	if namespace {
		lead = append(lead, metav1.TableColumnDefinition{Name: "Namespace", Type: "string"})
	}
	content := &metav1.Table{ColumnDefinitions: append(lead, rows[0].columns...)}
	for i := range content.ColumnDefinitions {
		content.ColumnDefinitions[i].Name = plain(content.ColumnDefinitions[i].Name)
	}
	for i, row := range rows {
		var cells []any
		if event {
			cells = append(cells, all[i].eventText())
		}
		if namespace {
			cells = append(cells, plain(all[i].key.Namespace))
		}
		for c := range row.columns { // the server may send more or fewer cells
			text := ""
			if c < len(row.cells) {
				text = plain(cellText(row.cells[c]))
			}
			cells = append(cells, text)
		}
		content.Rows = append(content.Rows, metav1.TableRow{Cells: cells})
	}
	if err := s.printer.PrintObj(content, s.columns); err != nil {
		return err
	}
	if err := s.columns.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(s.text.String(), "\n"), "\n")
	s.text.Reset()
	for i, line := range lines {
		style := bold // of headers
		if row := i - (len(lines) - len(rows)); row >= 0 {
			style = all[row].style()
		}
		into.in(style, strings.TrimRight(line, " "))
		into.put("\n")
	}
	return nil
}

// cellText returns a cell as text; null is empty.
func cellText(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any, []any:
		if text, err := jsonText(v); err == nil {
			return text
		}
	}
	return fmt.Sprint(cell)
}
