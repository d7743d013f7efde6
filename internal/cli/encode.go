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
// or that YAML does not allow. It decodes to the same value.
//
// The YAML package neither accepts nor escapes all of these characters. Strings that
// contain one are replaced by placeholders before encoding, which are then replaced by
// double-quoted scalars.
func yamlText(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	raw, quoted := setAside(raw)
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return "", err
	}
	if len(quoted) == 0 {
		return string(text), nil
	}
	return strings.NewReplacer(quoted...).Replace(string(text)), nil
}

// setAside replaces each string that needs quoting by a unique placeholder. It returns
// pairs of placeholder and replacement for [strings.NewReplacer].
func setAside(raw []byte) (out []byte, quoted []string) {
	prefix := "tarn-quoted"
	for bytes.Contains(raw, []byte(prefix)) {
		prefix += "-x"
	}
	for {
		start := bytes.IndexByte(raw, '"')
		if start < 0 {
			return append(out, raw...), quoted
		}
		end := start + 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		literal := raw[start : end+1]
		out, raw = append(out, raw[:start]...), raw[end+1:]
		var s string
		key := len(raw) > 0 && raw[0] == ':'
		if err := json.Unmarshal(literal, &s); err != nil || yamlHolds(s) && !(key && len(literal) > longKey) {
			out = append(out, literal...) // the YAML package returns the better error
			continue
		}
		text := yamlQuoted(s)
		// A long key needs a long placeholder, so that the YAML package uses its syntax for
		// long keys.
		word := fmt.Sprintf("%s-%d-%s", prefix, len(quoted), strings.Repeat("x", min(len(text), longKey)))
		out = append(append(append(out, '"'), word...), '"')
		quoted = append(quoted, word, text)
	}
}

// longKey is the length from which keys get the YAML package's syntax for long keys. The
// package cannot read plain keys above 1,024 bytes.
const longKey = 200

// yamlHolds reports whether the YAML package encodes a string so that it prints and parses
// correctly.
func yamlHolds(s string) bool {
	return s != "<<" && // would be parsed as a merge key
		!strings.ContainsFunc(s, func(r rune) bool { return !shown(r) && r != '\n' && r != '\t' })
}

// yamlQuoted returns a string as a double-quoted scalar.
func yamlQuoted(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s)
	return `"` + escape(s, "") + `"`
}
