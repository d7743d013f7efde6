// Package docs has only tests, of what the project publishes beside its packages:
//
//   - The Go code in README.md and docs/ compiles; see blocks_test.go.
//   - The shell commands of all pages work against the embedded API server; see
//     commands_test.go.
//   - Examples or pages use every exported identifier; see shown_test.go.
//   - The exported API still has everything that the last release had; see api_test.go.
//   - Links lead to files that exist, and packages log the messages that the pages explain; see
//     links_test.go.
package docs
