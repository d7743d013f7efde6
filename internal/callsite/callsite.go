// Package callsite finds the file and line of a caller, for names and messages that point to
// a line of the user's program.
package callsite

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Outside returns the file, with its folder, and line of the nearest caller outside the package
// with the given import path. Tests of that package count as outside.
func Outside(pkg string) string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, pkg+".") || strings.HasSuffix(f.File, "_test.go") {
			dir, file := filepath.Split(f.File)
			return fmt.Sprintf("%s/%s:%d", filepath.Base(dir), file, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
