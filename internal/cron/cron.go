// Package cron parses the schedules of CronJobs.
package cron

import (
	"fmt"
	"math/bits"
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
}

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// Parse parses the five fields of a cron schedule, or a macro such as @hourly or
// "@every 90m".
func Parse(text string) (s Schedule, err error) {
	if period, ok := strings.CutPrefix(text, "@every "); ok {
		s.every, err = time.ParseDuration(period)
		if err != nil || s.every < time.Second {
			return s, fmt.Errorf("schedule %q: want a period of a second or more", text)
		}
		s.every = s.every.Truncate(time.Second)
		return s, nil
	}
	if fields, ok := macros[text]; ok {
		text = fields
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return s, fmt.Errorf("schedule %q: want five fields or a macro", text)
	}
	for i, f := range []struct {
		into     *uint64
		min, max int
		names    []string
	}{
		{&s.minute, 0, 59, nil}, {&s.hour, 0, 23, nil}, {&s.day, 1, 31, nil}, {&s.month, 1, 12, months}, {&s.weekday, 0, 7, weekdays},
	} {
		if *f.into, err = parseField(fields[i], f.min, f.max, f.names); err != nil {
			return s, fmt.Errorf("schedule %q: %w", text, err)
		}
	}
	s.weekday |= s.weekday >> 7 & 1 // Sunday is 0 and 7
	s.anyDay, s.anyWeekday = strings.HasPrefix(fields[2], "*") || fields[2] == "?", strings.HasPrefix(fields[4], "*") || fields[4] == "?"
	return s, nil
}

// parseField parses a list of values, ranges and steps.
func parseField(text string, least, most int, names []string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("invalid step in %q", part)
			}
		}
		from, to := least, most
		if span != "*" && span != "?" {
			first, last, isRange := strings.Cut(span, "-")
			if from, err = parseValue(first, least, names); err != nil {
				return 0, err
			}
			if to = from; stepped {
				to = most
			}
			if isRange {
				if to, err = parseValue(last, least, names); err != nil {
					return 0, err
				}
			}
		}
		if from < least || to > most || from > to {
			return 0, fmt.Errorf("%q is not within %d-%d", part, least, most)
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func parseValue(text string, least int, names []string) (int, error) {
	for i, name := range names {
		if strings.EqualFold(text, name) {
			return i + least, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("invalid value %q", text)
	}
	return n, nil
}

// Next returns the first time of the schedule after t, in the location of t. It is zero if
// there is none within five years, as for the 30th of February.
func (s Schedule) Next(t time.Time) time.Time {
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
