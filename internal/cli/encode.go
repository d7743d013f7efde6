package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// jsonText encodes a value as JSON on one line and escapes characters that a terminal would
// interpret. It decodes to the same value.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return escapeJSON(strings.TrimSuffix(b.String(), "\n")), nil
}

// escapeJSON escapes non-printable characters in JSON. They occur only inside strings,
// except for newlines, which are kept.
func escapeJSON(text string) string {
	return escapeWith(text, "\n", func(b *strings.Builder, r rune, _ string) {
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	})
}

// yamlText encodes a value as YAML and escapes characters that a terminal would interpret
// or that YAML does not allow. It decodes to the same value, unless keys have hundreds of such characters.
func yamlText(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(raw)
	if err == nil && escape(string(text), "\n") == string(text) && !bytes.Contains(raw, []byte(`"<<"`)) {
		return string(text), nil
	}
	// The YAML package escapes neither all of these characters nor a key that it would read as a
	// merge. JSON is YAML, and all its strings are quoted.
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", err
	}
	return escape(b.String(), "\n") + "\n", nil
}
