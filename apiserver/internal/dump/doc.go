// Package dump writes objects as text that is the same in every run of a test. What differs, such as UIDs, times
// and generated names, is replaced. [Write] is the entry, and [Diff] compares two texts.
package dump
