package builtin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scheduleField is one of the five fields of a schedule.
type scheduleField struct {
	low, high int
	names     []string // of the numbers from low on
}

var scheduleFields = []scheduleField{
	{0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// checkSchedule returns an error for a cron schedule that is not valid, in the words of the
// parser that kube-apiserver uses.
func checkSchedule(schedule string) error {
	if strings.HasPrefix(schedule, "TZ=") || strings.HasPrefix(schedule, "CRON_TZ=") {
		zone, rest, _ := strings.Cut(schedule, " ")
		_, zone, _ = strings.Cut(zone, "=")
		if _, err := time.LoadLocation(zone); err != nil {
			return fmt.Errorf("provided bad location %s: %v", zone, err)
		}
		schedule = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(schedule, "@") {
		return checkDescriptor(schedule)
	}
	fields := strings.Fields(schedule)
	if len(fields) != len(scheduleFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %s", len(scheduleFields), len(fields), fields)
	}
	for i, f := range scheduleFields {
		for part := range strings.FieldsFuncSeq(fields[i], func(r rune) bool { return r == ',' }) {
			if err := f.check(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDescriptor(schedule string) error {
	if slices.Contains([]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}, schedule) {
		return nil
	}
	if every, ok := strings.CutPrefix(schedule, "@every "); ok {
		if _, err := time.ParseDuration(every); err != nil {
			return fmt.Errorf("failed to parse duration %s: %s", schedule, err)
		}
		return nil
	}
	return fmt.Errorf("unrecognized descriptor: %s", schedule)
}

// check checks a range such as "1", "*", "1-5" or "*/15".
func (f scheduleField) check(text string) error {
	parts := strings.Split(text, "/")
	bounds := strings.Split(parts[0], "-")
	low, high := f.low, f.high
	if bounds[0] != "*" && bounds[0] != "?" {
		var err error
		if low, err = f.number(bounds[0]); err != nil {
			return err
		}
		switch len(bounds) {
		case 1:
			if len(parts) == 1 {
				high = low
			}
		case 2:
			if high, err = f.number(bounds[1]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("too many hyphens: %s", text)
		}
	}
	step := 1
	switch len(parts) {
	case 1:
	case 2:
		var err error
		if step, err = naturalNumber(parts[1]); err != nil {
			return err
		}
	default:
		return fmt.Errorf("too many slashes: %s", text)
	}
	switch {
	case low < f.low:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", low, f.low, text)
	case high > f.high:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", high, f.high, text)
	case low > high:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", low, high, text)
	case step == 0:
		return fmt.Errorf("step of range should be a positive number: %s", text)
	}
	return nil
}

// number returns the number of a text, or that of a name.
func (f scheduleField) number(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + i, nil
	}
	return naturalNumber(text)
}

func naturalNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %s", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}
