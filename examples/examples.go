// Package examples holds the sources of the website example, from which `tarn new` makes a
// new project.
package examples

import "embed"

// Website has the folder website, without its README. It is read-only.
//
//go:embed website/*.go website/v1 website/config website/Dockerfile
var Website embed.FS
