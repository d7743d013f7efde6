// Package cron parses the schedules of CronJobs as kube-apiserver does, with its error messages.
package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Schedule is a parsed cron schedule: the values of each field as bits, or a period.
type Schedule struct {
	minute, hour, day, month, weekday uint64
	// anyDay and anyWeekday are set for "*". If neither is, either may match.
	anyDay, anyWeekday bool
	every              time.Duration
	zone               *time.Location // nil: that of the times
}

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// field is one of the five fields of a schedule.
type field struct {
	low, high int
	names     []string // of the numbers from low on
}

var fields = [5]field{
	{0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// Parse parses the five fields of a cron schedule, or a macro such as @hourly or
// "@every 90m", after an optional time zone such as "TZ=Europe/Rome".
func Parse(text string) (s Schedule, err error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		zone, rest, _ := strings.Cut(text, " ")
		_, zone, _ = strings.Cut(zone, "=")
		if s.zone, err = time.LoadLocation(zone); err != nil {
			return s, fmt.Errorf("provided bad location %s: %w", zone, err)
		}
		text = strings.TrimSpace(rest)
	}
	if period, ok := strings.CutPrefix(text, "@every "); ok {
		if s.every, err = time.ParseDuration(period); err != nil {
			return s, fmt.Errorf("failed to parse duration %s: %w", text, err)
		}
		s.every = max(time.Second, s.every.Truncate(time.Second))
		return s, nil
	}
	if strings.HasPrefix(text, "@") {
		macro, ok := macros[text]
		if !ok {
			return s, fmt.Errorf("unrecognized descriptor: %s", text)
		}
		text = macro
	}
	texts := strings.Fields(text)
	if len(texts) != len(fields) {
		return s, fmt.Errorf("expected exactly %d fields, found %d: %s", len(fields), len(texts), texts)
	}
	var unused bool
	for i, into := range []struct {
		set *uint64
		any *bool
	}{{&s.minute, &unused}, {&s.hour, &unused}, {&s.day, &s.anyDay}, {&s.month, &unused}, {&s.weekday, &s.anyWeekday}} {
		for part := range strings.FieldsFuncSeq(texts[i], func(r rune) bool { return r == ',' }) {
			set, all, err := fields[i].parse(part)
			if err != nil {
				return s, err
			}
			*into.set |= set
			*into.any = *into.any || all
		}
	}
	return s, nil
}

// parse parses a range such as "1", "*", "1-5" or "*/15". all is true for "*".
func (f field) parse(text string) (set uint64, all bool, err error) {
	parts := strings.Split(text, "/")
	bounds := strings.Split(parts[0], "-")
	low, high, step := f.low, f.high, 1
	if all = bounds[0] == "*" || bounds[0] == "?"; !all {
		if low, err = f.number(bounds[0]); err != nil {
			return 0, false, err
		}
		switch {
		case len(bounds) > 2:
			return 0, false, fmt.Errorf("too many hyphens: %s", text)
		case len(bounds) == 2:
			if high, err = f.number(bounds[1]); err != nil {
				return 0, false, err
			}
		case len(parts) == 1:
			high = low
		}
	}
	if len(parts) > 2 {
		return 0, false, fmt.Errorf("too many slashes: %s", text)
	}
	if len(parts) == 2 {
		if step, err = natural(parts[1]); err != nil {
			return 0, false, err
		}
	}
	switch {
	case low < f.low:
		err = fmt.Errorf("beginning of range (%d) below minimum (%d): %s", low, f.low, text)
	case high > f.high:
		err = fmt.Errorf("end of range (%d) above maximum (%d): %s", high, f.high, text)
	case low > high:
		err = fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", low, high, text)
	case step == 0:
		err = fmt.Errorf("step of range should be a positive number: %s", text)
	}
	if err != nil {
		return 0, false, err
	}
	for n := low; n <= high; n += step {
		set |= 1 << n
	}
	return set, all && step == 1, nil
}

// number returns the number of a text, or that of a name.
func (f field) number(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + i, nil
	}
	return natural(text)
}

func natural(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}

// Next returns the first time of the schedule after t, in the location of t or that of the
// schedule. It is zero if there is none within five years, as for the 30th of February.
func (s Schedule) Next(t time.Time) time.Time {
	if s.zone != nil {
		t = t.In(s.zone)
	}
	if s.every > 0 {
		return t.Truncate(time.Second).Add(s.every)
	}
	for day := t; day.Before(t.AddDate(5, 0, 0)); {
		if s.onDay(day) {
			for hours := s.hour; hours != 0; hours &= hours - 1 {
				for minutes := s.minute; minutes != 0; minutes &= minutes - 1 {
					hour, minute := bits.TrailingZeros64(hours), bits.TrailingZeros64(minutes)
					at := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, t.Location())
					// An hour that daylight saving time skips does not exist.
					if at.After(t) && at.Hour() == hour {
						return at
					}
				}
			}
		}
		// Noon exists on every day; daylight saving time may skip midnight.
		day = time.Date(day.Year(), day.Month(), day.Day()+1, 12, 0, 0, 0, t.Location())
	}
	return time.Time{}
}

// Last returns the last scheduled time after one time and not after another, or zero.
func (s Schedule) Last(after, until time.Time) time.Time {
	if s.every > 0 {
		first := s.Next(after)
		if first.After(until) {
			return time.Time{}
		}
		return first.Add(until.Sub(first) / s.every * s.every)
	}
	// The last second from which the next time is not too late.
	n := sort.Search(max(int(until.Sub(after)/time.Second)+1, 0), func(i int) bool {
		next := s.Next(after.Add(time.Duration(i) * time.Second))
		return next.IsZero() || next.After(until)
	})
	if n == 0 {
		return time.Time{}
	}
	return s.Next(after.Add(time.Duration(n-1) * time.Second))
}

func (s Schedule) onDay(t time.Time) bool {
	day, weekday := s.day>>t.Day()&1 == 1, s.weekday>>t.Weekday()&1 == 1
	if s.month>>t.Month()&1 == 0 {
		return false
	}
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
