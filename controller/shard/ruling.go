package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/object"
)

// ruling is what the group's lease says.
type ruling struct {
	slots assignment
	// duration is the longest LeaseDuration of the owners.
	duration time.Duration
	// written is at least what the earlier owners of slots wrote. A new owner does not work
	// before its caches have it.
	written versions
}

// versions are the newest resource versions that were written. They are not changed once another
// goroutine or a view has them.
type versions map[part]object.Version

// part is the part of a cache that has one list and one watch.
type part struct {
	cache string
	scope object.Scope
}

// add returns the versions with another one, unless there is a newer one.
func (v versions) add(p part, version object.Version) versions {
	if old, ok := v[p]; !version.Known() || ok && (old == version || old.After(version)) {
		return v
	}
	more := make(versions, len(v)+1)
	maps.Copy(more, v)
	more[p] = version
	return more
}

// merge returns the newer version of each part.
func (v versions) merge(other versions) versions {
	for p, version := range other {
		v = v.add(p, version)
	}
	return v
}

// String returns the versions as they are stored: a line for each part, such as
// "1234 shop configmaps", with "*" for all namespaces.
func (v versions) String() string {
	lines := make([]string, 0, len(v))
	for p, version := range v {
		scope := string(p.scope)
		if p.scope == object.Everything {
			scope = "*"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s\n", version, scope, p.cache))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// parseVersions is the inverse of [versions.String]. It ignores lines that it cannot read.
func parseVersions(text string) (v versions) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 {
			continue
		}
		scope := object.Scope(fields[1])
		if scope == "*" {
			scope = object.Everything
		}
		v = v.add(part{fields[2], scope}, object.Version(fields[0]))
	}
	return v
}
