package console

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// conditions are the conditions that say in one word how an object is, and the words.
var conditions = []struct{ name, is, isNot string }{
	{"Ready", "Ready", "NotReady"}, {"Available", "Available", "Unavailable"}, {"Complete", "Complete", ""}, {"Established", "Established", ""},
}

// statusWord returns the phase of an object or what its conditions say; "" if it has neither.
func statusWord(obj *unstructured.Unstructured) string {
	status, _ := obj.Object["status"].(map[string]any)
	if phase, ok := status["phase"].(string); ok {
		return phase
	}
	list, _ := status["conditions"].([]any)
	for _, c := range conditions {
		for _, each := range list {
			if condition, _ := each.(map[string]any); condition["type"] == c.name {
				if condition["status"] == "True" {
					return c.is
				}
				return c.isNot
			}
		}
	}
	return ""
}
