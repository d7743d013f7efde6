package console

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/status"
)

// schemaOf returns a line for each value in the JSON form of a type: its path, "?" if it may be
// missing, and its type.
func schemaOf(t reflect.Type, path string) (lines []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			lines = append(lines, schemaOf(f.Type, path)...)
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		at, of := path+name, f.Type
		if option == "omitempty" {
			at += "?"
		}
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			if of.Kind() == reflect.Slice {
				at += "[]"
			}
			of = of.Elem()
		}
		switch {
		case of.Kind() == reflect.Struct:
			lines = append(lines, schemaOf(of, at+".")...)
		case of.Kind() == reflect.Map:
			lines = append(lines, at+"{}: "+kindOf(of.Elem()))
		default:
			lines = append(lines, at+": "+kindOf(of))
		}
	}
	return lines
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Interface:
		return "any"
	}
	if t == reflect.TypeFor[status.State]() {
		return "string"
	}
	return "number"
}

func TestTheDocumentedSchemaIsThatOfTheResponses(t *testing.T) {
	text, err := os.ReadFile("../docs/operating/console.md")
	if err != nil {
		t.Fatal(err)
	}
	for endpoint, of := range map[string]reflect.Type{
		"/status": reflect.TypeFor[answer](), "/objects": reflect.TypeFor[objectPage](),
		"/object": reflect.TypeFor[objectDetail](), "/explain": reflect.TypeFor[Explanation](),
	} {
		block := regexp.MustCompile("(?s)<!-- schema " + endpoint + " -->\n```\n(.*?)```").FindSubmatch(text)
		if block == nil {
			t.Errorf("docs/operating/console.md has no schema of %s", endpoint)
			continue
		}
		var documented []string
		for _, line := range strings.Split(strings.TrimSpace(string(block[1])), "\n") {
			line, _, _ = strings.Cut(line, " //")
			documented = append(documented, strings.TrimSpace(line))
		}
		if want := schemaOf(of, ""); strings.Join(documented, "\n") != strings.Join(want, "\n") {
			t.Errorf("the schema of %s is\n%s", endpoint, strings.Join(want, "\n"))
		}
	}
}
