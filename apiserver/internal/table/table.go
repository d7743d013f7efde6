package table

import (
	"reflect"
	"strings"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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

// New renders a page for kubectl. In a watch, only the first table has column definitions. include says
// what a row has of its object, and in is the version of the table.
func New(c *codec.Codecs, k *kinds.Kind, in schema.GroupVersion, include metav1.IncludeObjectPolicy, p storage.Page, columns bool) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: in.String(), Kind: "Table"},
		ListMeta: metav1.ListMeta{ResourceVersion: kinds.FormatVersion(p.Version), Continue: p.Next, RemainingItemCount: p.Remaining},
		Rows:     make([]metav1.TableRow, 0, len(p.Records)),
	}
	if columns {
		t.ColumnDefinitions = layoutOf(k)
	}
	for _, rec := range p.Records {
		row := metav1.TableRow{Cells: cellsOf(k, rec)}
		switch include {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			// Rows are raw extensions and always hold JSON.
			if raw, err := c.Record(k, kinds.JSON, rec); err == nil {
				row.Object = runtime.RawExtension{Raw: raw}
			}
		default:
			if raw, err := c.Encode(codec.Representation{}, codec.Partial(rec, in)); err == nil {
				row.Object = runtime.RawExtension{Raw: raw}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func layoutOf(k *kinds.Kind) []metav1.TableColumnDefinition {
	if l := layouts[k.Storage.String()]; l != nil {
		return l
	}
	out := []metav1.TableColumnDefinition{nameColumn}
	if len(k.Columns) == 0 && k.Typed {
		return append(out, ageColumn)
	}
	if len(k.Columns) == 0 {
		return append(out, col("Age", "date", 0, ageColumn.Description))
	}
	for _, c := range k.Columns {
		out = append(out, c.TableColumnDefinition)
	}
	return out
}

// cellsOf returns the values of a row in column order.
func cellsOf(k *kinds.Kind, rec *kinds.Record) []any {
	name, age := any(rec.Key.Name), any(metatable.ConvertToHumanReadableDateType(rec.Meta.GetCreationTimestamp()))
	if _, ok := rec.Obj.(*unstructured.Unstructured); !ok {
		if cells := builtinCells(rec.Obj, age); cells != nil {
			return cells
		}
	}
	if len(k.Columns) == 0 {
		return []any{name, age}
	}
	cells := []any{name}
	for _, c := range k.Columns {
		cells = append(cells, cellOf(&c, kinds.ContentOf(k.Working(rec))))
	}
	return cells
}

// cellOf returns the value of a custom column: the first one that the path finds, or nil if
// that does not have the type of the column.
func cellOf(c *kinds.Column, tree map[string]any) any {
	found, err := c.Path.FindResults(tree)
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
			return metatable.ConvertToHumanReadableDateType(metav1.NewTime(at))
		}
	}
	var text strings.Builder
	if c.Type != "string" || c.Path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
		return nil
	}
	return text.String()
}
