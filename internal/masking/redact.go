package masking

import (
	"maps"
	"regexp"
	"strings"
)

// Placeholder replaces text in recordings. It is valid base64, so that it can be decoded wherever text can.
const Placeholder = "redacted"

var (
	// keptText are the fields whose text [Redacted] keeps: names, references and states.
	keptText = words(`apiVersion kind name namespace uid generateName resourceVersion apiGroup group resource nodeName claimName
		serviceName serviceAccountName schedulerName priorityClassName storageClassName volumeName subresource operation
		manager fieldsType type status phase reason protocol operator effect topologyKey qosClass conditionType port targetPort`)
	// keptWhole are the fields that it keeps with all that is in them.
	keptWhole = words(`labels matchLabels matchExpressions selector nodeSelector finalizers requests limits capacity allocatable`)
	// neverKept are the fields of which it keeps no text, whatever that looks like.
	neverKept = words(`data stringData binaryData annotations value command args`)

	keptNames  = regexp.MustCompile(`(Time|Timestamp|Policy|Mode)$`)
	quantities = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]+)?([numkKMGTPE]i?)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$`)
)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// Redacted returns the content of an object with a placeholder for all text, except that of names, references, labels, states,
// times and quantities. Numbers and booleans stay, as do the names of fields. Of managed fields, managers and
// times stay: the others name keys of lists. The given content is not modified.
func Redacted(content map[string]any) map[string]any {
	out := redacted(content, false).(map[string]any)
	if meta, ok := out["metadata"].(map[string]any); ok {
		fields, _ := meta["managedFields"].([]any)
		for _, f := range fields {
			if entry, ok := f.(map[string]any); ok {
				delete(entry, "fieldsV1")
			}
		}
	}
	return out
}

// redacted replaces text in v, all of it if strict is set.
func redacted(v any, strict bool) any {
	switch v := v.(type) {
	case string:
		if !strict && quantities.MatchString(v) {
			return v
		}
		return Placeholder
	case []any:
		out := make([]any, len(v))
		for i, elem := range v {
			out[i] = redacted(elem, strict)
		}
		return out
	case map[string]any:
		out := maps.Clone(v)
		for name, field := range v {
			_, text := field.(string)
			if strict || !keptWhole[name] && !(text && (keptText[name] || keptNames.MatchString(name))) {
				out[name] = redacted(field, strict || neverKept[name])
			}
		}
		return out
	}
	return v
}
