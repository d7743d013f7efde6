// Package docs has only tests, of what the project publishes beside its packages:
//
//   - The Go code in README.md and docs/ compiles; see blocks_test.go.
//   - The program of docs/getting-started.md passes its own tests, and the page's commands
//     work; see started_test.go.
//   - The exported API still has everything that the last release had; see api_test.go.
//   - Links lead to files that exist, and packages log the messages that the pages explain; see
//     links_test.go.
package docs
