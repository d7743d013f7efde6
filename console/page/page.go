// Package page holds the files of the console's page.
package page

import "embed"

// Files are the page's files: HTML, CSS and ES modules, served as they are.
//
//go:embed *.html *.css *.js *.svg
var Files embed.FS
