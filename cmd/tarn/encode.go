package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// jsonText encodes a value as JSON on one line, with everything escaped that a terminal
// would obey. A JSON parser reads the same value from it.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return escapeJSON(strings.TrimSuffix(b.String(), "\n")), nil
}

// jsonString encodes a string as JSON.
func jsonString(s string) string {
	text, _ := jsonText(s) // of a string it never fails
	return text
}

// escapeJSON escapes, in a JSON text, the characters of strings that are not shown. Outside
// of strings there are none, except the newlines of an indented text, which stay.
func escapeJSON(text string) string {
	return escapeWith(text, "\n", func(b *strings.Builder, r rune, _ string) {
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	})
}

// yamlText encodes a value as a YAML document, with everything escaped that a terminal would
// obey or YAML does not allow. A YAML parser reads the same value from it.
//
// The YAML package neither reads nor escapes all of these characters. Strings that have one
// are therefore replaced by a word before the package sees them, and the word by a
// double-quoted scalar afterwards.
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

// setAside replaces, in a text by [json.Marshal], each string that YAML must quote by a word
// that occurs nowhere else. It returns the words and what they stand for, by turns.
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
			out = append(out, literal...) // of an error, the YAML package says more
			continue
		}
		text := yamlQuoted(s)
		// As a key, a long word is written in the way that a long text needs.
		word := fmt.Sprintf("%s-%d-%s", prefix, len(quoted), strings.Repeat("x", min(len(text), longKey)))
		out = append(append(append(out, '"'), word...), '"')
		quoted = append(quoted, word, text)
	}
}

// longKey is a length of keys from which on the YAML package writes them in the long way. It does
// not read keys of more than 1,024 bytes in JSON.
const longKey = 200

// yamlHolds reports whether the YAML package writes a text so that a terminal shows it and
// a parser reads it.
func yamlHolds(s string) bool {
	return s != "<<" && // which is read as a merge
		!strings.ContainsFunc(s, func(r rune) bool { return !shown(r) && r != '\n' && r != '\t' })
}

// yamlQuoted returns a text as a double-quoted scalar.
func yamlQuoted(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s)
	return `"` + escape(s, "") + `"`
}
