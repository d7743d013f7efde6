package console

// Problem is something in a [Status] that a person should look at.
type Problem struct {
	// Severity is "error" if objects or keys are affected now, otherwise "warning".
	Severity string `json:"severity"`
	// Subject is what is affected, such as "mirror/pods" or "controller/website".
	Subject string `json:"subject"`
	// What says what is wrong and why, and Do what to do about it, in one sentence each.
	What string `json:"what"`
	Do   string `json:"do"`
	// YAML is a manifest that fixes it, such as the missing RBAC rule.
	YAML string `json:"yaml,omitempty"`
}

// Problems returns what is unhealthy, most severe first.
func Problems(s Status) []Problem { return nil }
