package apiserver

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// column is a column of a custom resource's table.
type column struct {
	metav1.TableColumnDefinition
	path *jsonpath.JSONPath
}

// columnsOf parses the printer columns of a custom resource. As on the real server, an
// invalid path ends the list.
func columnsOf(defined []definedColumn) (columns []column) {
	for _, d := range defined {
		path := jsonpath.New(d.Name).AllowMissingKeys(true)
		if path.Parse("{"+d.Path+"}") != nil {
			break
		}
		columns = append(columns, column{path: path, TableColumnDefinition: metav1.TableColumnDefinition{
			Name: d.Name, Type: d.Type, Format: d.Format, Priority: d.Priority,
			Description: cmp.Or(d.Description, "Custom resource definition column (in JSONPath format): "+d.Path),
		}})
	}
	return columns
}

// col returns a column with the description of the real server.
func col(name, kind string, priority int32, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Priority: priority, Description: description}
}

// doc returns the documentation of a field of an API type.
func doc(t interface{ SwaggerDoc() map[string]string }, field string) string {
	return t.SwaggerDoc()[field]
}

var (
	nameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: doc(metav1.ObjectMeta{}, "name")}
	ageColumn  = col("Age", "string", 0, doc(metav1.ObjectMeta{}, "creationTimestamp"))
)

// table renders a page for kubectl. In a watch, only the first table has column
// definitions.
func (s *Server) table(r *request, p page, columns bool) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: r.rep.in.String(), Kind: "Table"},
		ListMeta: metav1.ListMeta{ResourceVersion: formatVersion(p.version), Continue: p.next, RemainingItemCount: p.remaining},
		Rows:     make([]metav1.TableRow, 0, len(p.records)),
	}
	if columns {
		t.ColumnDefinitions = r.kind.layout()
	}
	include := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
	for _, rec := range p.records {
		row := metav1.TableRow{Cells: r.kind.cells(rec)}
		switch include {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			// Rows are raw extensions and always hold JSON.
			if raw, err := s.codecs.record(r.kind, asJSON, rec); err == nil {
				row.Object = runtime.RawExtension{Raw: raw}
			}
		default:
			if raw, err := s.codecs.encode(representation{}, partial(rec, r.rep.in)); err == nil {
				row.Object = runtime.RawExtension{Raw: raw}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (k *kind) layout() []metav1.TableColumnDefinition {
	if l := layouts[k.storage.String()]; l != nil {
		return l
	}
	out := []metav1.TableColumnDefinition{nameColumn}
	if len(k.columns) == 0 && k.typed {
		return append(out, ageColumn)
	}
	if len(k.columns) == 0 {
		return append(out, col("Age", "date", 0, ageColumn.Description))
	}
	for _, c := range k.columns {
		out = append(out, c.TableColumnDefinition)
	}
	return out
}

// cells returns the values of a row in column order.
func (k *kind) cells(rec *record) []any {
	name, age := any(rec.key.Name), any(since(rec.meta.GetCreationTimestamp()))
	if _, ok := rec.obj.(*unstructured.Unstructured); !ok {
		if cells := builtinCells(rec.obj, age); cells != nil {
			return cells
		}
	} else if k.Kind == "CustomResourceDefinition" && k.builtin() {
		return []any{name, rec.meta.GetCreationTimestamp().UTC().Format(time.RFC3339)}
	}
	if len(k.columns) == 0 {
		return []any{name, age}
	}
	cells := []any{name}
	for _, c := range k.columns {
		cells = append(cells, c.cell(contentOf(k.working(rec))))
	}
	return cells
}

// cell returns the value of a custom column: the first one that the path finds, or nil if
// that does not have the type of the column.
func (c *column) cell(tree map[string]any) any {
	found, err := c.path.FindResults(tree)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	switch v := value.(type) {
	case int64:
		switch c.Type {
		case "integer":
			return v
		case "number":
			return float64(v)
		}
	case float64:
		switch c.Type {
		case "integer":
			return int64(v)
		case "number":
			return v
		}
	case bool:
		if c.Type == "boolean" {
			return v
		}
	case string:
		if c.Type == "date" {
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return "<invalid>"
			}
			return since(metav1.NewTime(at))
		}
	}
	var text strings.Builder
	if c.Type != "string" || c.path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
		return nil
	}
	return text.String()
}

func since(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}
