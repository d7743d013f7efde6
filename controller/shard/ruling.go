package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarnproject/tarn/object"
)

// ruling is what the group's lease says.
type ruling struct {
	slots assignment
	// rules identify how the owners divide keys (Options.Rules and Ranges). A member with other rules does not
	// work. They change only while no member works on any slot.
	rules string
	// line is a random text. The member that writes an assignment in place of none, or of one that cannot be
	// read, chooses it, and later ones keep it.
	line string
	// duration is the longest LeaseDuration of the owners.
	duration time.Duration
	// written is what the earlier owners of slots wrote lately. A new owner does not work before
	// its caches have it.
	written versions
}

// rulesOf returns the rules of a process. Members that have another number of slots differ, too.
func rulesOf(text string, ranges bool) string {
	return strconv.FormatUint(object.Hash(fmt.Sprintf("%d %v %s", Slots, ranges, text)), 16)
}

// versions are the newest resource versions that were written. They are not changed once another
// goroutine or a view has them.
type versions map[part]object.Version

// part is a part of a cache: what has one list and one watch or, in a cache that has the ranges of
// its member only, what has one slot. No event of another slot arrives there.
type part struct {
	cache string
	scope object.Scope
	slot  string // empty: all
}

// covered reports whether a cache with a shard receives the changes of the part.
func (p part) covered(shard object.Shard) bool {
	n, err := strconv.ParseUint(p.slot, 10, 8)
	return err != nil || shard.ContainsHash(Slot(n).hashes().First)
}

// history has the newest version of each part, and when it became known to this process.
type history map[part]recorded

type recorded struct {
	version object.Version
	at      time.Duration
}

// maxWritten limits the text of the versions of a lease, whose annotations may have 256 KiB.
const maxWritten = 128 << 10

// add records a version, unless there is a newer one.
func (h history) add(p part, version object.Version, now time.Duration) {
	if old, ok := h[p]; version.Known() && (!ok || old.version != version && !old.version.After(version)) {
		h[p] = recorded{version, now}
	}
}

// since forgets all versions before a moment, and returns the latest of the others.
func (h history) since(moment time.Duration) versions {
	maps.DeleteFunc(h, func(_ part, r recorded) bool { return r.at < moment })
	v, size := make(versions, len(h)), 0
	for _, p := range slices.SortedFunc(maps.Keys(h), func(a, b part) int { return cmp.Compare(h[b].at, h[a].at) }) {
		if size += len(p.cache) + len(p.scope) + len(p.slot) + len(h[p].version) + 4; size > maxWritten {
			delete(h, p)
		} else {
			v[p] = h[p].version
		}
	}
	return v
}

// String returns the versions as they are stored: a line for each part, such as
// "1234 shop configmaps", with "*" for all namespaces and "*#17" for the slot 17 of them.
func (v versions) String() string {
	lines := make([]string, 0, len(v))
	for p, version := range v {
		scope := string(p.scope)
		if p.scope == object.Everything {
			scope = "*"
		}
		if p.slot != "" {
			scope += "#" + p.slot
		}
		lines = append(lines, fmt.Sprintf("%s %s %s\n", version, scope, p.cache))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// parseVersions is the inverse of [versions.String]. It ignores lines that it cannot read.
func parseVersions(text string) versions {
	v := versions{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 || !object.Version(fields[0]).Known() {
			continue
		}
		scope, slot, _ := strings.Cut(fields[1], "#")
		if scope == "*" {
			scope = string(object.Everything)
		}
		v[part{fields[2], object.Scope(scope), slot}] = object.Version(fields[0])
	}
	return v
}
