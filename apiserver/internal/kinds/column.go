package kinds

import (
	"cmp"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
)

// Column is a column of a custom resource's table.
type Column struct {
	metav1.TableColumnDefinition
	Path *jsonpath.JSONPath
}

// columnsOf parses the printer columns of a custom resource. As on the real server, an
// invalid path ends the list.
func columnsOf(defined []apiextensionsv1.CustomResourceColumnDefinition) (columns []Column) {
	for _, d := range defined {
		path := jsonpath.New(d.Name).AllowMissingKeys(true)
		if path.Parse("{"+d.JSONPath+"}") != nil {
			break
		}
		columns = append(columns, Column{Path: path, TableColumnDefinition: metav1.TableColumnDefinition{
			Name: d.Name, Type: d.Type, Format: d.Format, Priority: d.Priority,
			Description: cmp.Or(d.Description, "Custom resource definition column (in JSONPath format): "+d.JSONPath),
		}})
	}
	return columns
}
