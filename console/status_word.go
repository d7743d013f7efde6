package console

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// conditions are the conditions that say in one word how an object is, and the words.
var conditions = []struct{ name, is, isNot string }{
	{"Ready", "Ready", "NotReady"}, {"Available", "Available", "Unavailable"}, {"Complete", "Complete", ""}, {"Established", "Established", ""},
}

// statusWord returns the phase of an object or what its conditions say; "" if it has neither. A pod
// that runs and is not ready is NotReady.
func statusWord(obj *unstructured.Unstructured) string {
	status, _ := obj.Object["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	if phase != "" && phase != "Running" {
		return phase
	}
	list, _ := status["conditions"].([]any)
	for _, c := range conditions {
		for _, each := range list {
			if condition, _ := each.(map[string]any); condition["type"] == c.name {
				switch {
				case condition["status"] != "True":
					return c.isNot
				case phase != "":
					return phase
				}
				return c.is
			}
		}
	}
	return phase
}
