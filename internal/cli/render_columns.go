package cli

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
)

// customColumns is a parsed -o custom-columns=HEADER:PATH,...
type customColumns struct {
	headers []metav1.TableColumnDefinition
	paths   []*jsonpath.JSONPath
}

// parseColumns parses HEADER:PATH,... A path is a JSONPath; the braces and the leading dot are
// optional.
func parseColumns(spec string) (*customColumns, error) {
	c := &customColumns{}
	for part := range strings.SplitSeq(spec, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" || path == "" {
			return nil, usagef("invalid custom column %q: must be HEADER:PATH, such as NODE:.spec.nodeName", part)
		}
		path = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".")
		parsed := jsonpath.New(header).AllowMissingKeys(true)
		if err := parsed.Parse("{." + path + "}"); err != nil {
			return nil, usagef("invalid path in custom column %q: %s", part, oneLine(err.Error()))
		}
		c.headers = append(c.headers, metav1.TableColumnDefinition{Name: header, Type: "string"})
		c.paths = append(c.paths, parsed)
	}
	return c, nil
}

// row evaluates the columns. A value that does not exist is <none>.
func (c *customColumns) row(obj map[string]any) *tableRow {
	row := &tableRow{columns: c.headers}
	for _, path := range c.paths {
		var values []string
		// The only errors are paths that do not fit the object.
		found, _ := path.FindResults(obj)
		for _, value := range resultsOf(found) {
			values = append(values, cellText(value))
		}
		if len(values) == 0 {
			values = []string{"<none>"}
		}
		row.cells = append(row.cells, strings.Join(values, ","))
	}
	return row
}

// resultsOf returns the values of a JSONPath's results.
func resultsOf(results [][]reflect.Value) (values []any) {
	for _, list := range results {
		for _, v := range list {
			if v.IsValid() && v.CanInterface() && v.Interface() != nil {
				values = append(values, v.Interface())
			}
		}
	}
	return values
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
