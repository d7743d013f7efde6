// Package cron parses the schedules of CronJobs with the library of kube-apiserver, so that its error messages are
// the same.
package cron

import (
	"fmt"
	"sort"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a parsed cron schedule. Its Next returns the first time after another one, or zero if there is
// none within five years, as for the 30th of February.
type Schedule struct{ cron.Schedule }

// Parse parses the five fields of a cron schedule, or a macro such as @hourly or
// "@every 90m", after an optional time zone such as "TZ=Europe/Rome".
func Parse(text string) (s Schedule, err error) {
	defer func() {
		if p := recover(); p != nil { // for a zone without fields
			err = fmt.Errorf("invalid schedule format: %v", p)
		}
	}()
	s.Schedule, err = cron.ParseStandard(text)
	return s, err
}

// Last returns the last scheduled time after one time and not after another, or zero.
func (s Schedule) Last(after, until time.Time) time.Time {
	if every, ok := s.Schedule.(cron.ConstantDelaySchedule); ok {
		first := s.Next(after)
		if first.After(until) {
			return time.Time{}
		}
		return first.Add(until.Sub(first) / every.Delay * every.Delay)
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
