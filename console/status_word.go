package console

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conditions are the conditions that say in one word how an object is, and the words.
var conditions = []struct{ name, is, isNot string }{
	{"Ready", "Ready", "NotReady"}, {"Available", "Available", "Unavailable"}, {"Complete", "Complete", ""}, {"Established", "Established", ""},
}

// statusWord returns the phase of an object or what its conditions say; "" if it has neither.
func statusWord(obj any) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		status, _ := u.Object["status"].(map[string]any)
		if phase, ok := status["phase"].(string); ok {
			return phase
		}
		list, _ := status["conditions"].([]any)
		return conditionWord(len(list), func(i int) (name, state string) {
			c, _ := list[i].(map[string]any)
			name, _ = c["type"].(string)
			state, _ = c["status"].(string)
			return name, state
		})
	}
	status := fieldOf(reflect.Indirect(reflect.ValueOf(obj)), "Status", reflect.Struct)
	if phase := fieldOf(status, "Phase", reflect.String); phase.IsValid() && phase.Len() > 0 {
		return phase.String()
	}
	list := fieldOf(status, "Conditions", reflect.Slice)
	if !list.IsValid() {
		return ""
	}
	return conditionWord(list.Len(), func(i int) (name, state string) {
		text := func(field string) string {
			if f := fieldOf(list.Index(i), field, reflect.String); f.IsValid() {
				return f.String()
			}
			return ""
		}
		return text("Type"), text("Status")
	})
}

// fieldOf returns a field of a struct if it has that kind.
func fieldOf(v reflect.Value, name string, kind reflect.Kind) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	if f := v.FieldByName(name); f.IsValid() && f.Kind() == kind {
		return f
	}
	return reflect.Value{}
}

func conditionWord(n int, at func(i int) (name, state string)) string {
	for _, c := range conditions {
		for i := range n {
			if name, state := at(i); name == c.name {
				if state == "True" {
					return c.is
				}
				return c.isNot
			}
		}
	}
	return ""
}
