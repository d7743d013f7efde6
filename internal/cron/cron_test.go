package cron_test

import (
	"testing"
	"time"

	"github.com/tarnproject/tarn/internal/cron"
)

func TestSchedules(t *testing.T) {
	for _, c := range []struct{ schedule, from, want string }{
		{"* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z"},
		{"*/15 * * * *", "2026-03-01T10:46:10Z", "2026-03-01T11:00:00Z"},
		{"5,35 8-10 * * *", "2026-03-01T10:35:00Z", "2026-03-02T08:05:00Z"},
		{"0 0 1 jan *", "2026-03-01T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"0 12 * * mon-fri", "2026-03-06T12:00:00Z", "2026-03-09T12:00:00Z"},
		{"0 12 13 * fri", "2026-03-07T00:00:00Z", "2026-03-13T12:00:00Z"},
		{"0 12 10 * 5", "2026-03-07T00:00:00Z", "2026-03-10T12:00:00Z"},    // either day
		{"0 0 */31 * fri", "2026-03-01T12:00:00Z", "2026-03-06T00:00:00Z"}, // a step is not "*"
		{"TZ=UTC 0 0 * * 0", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"},
		{"@every 1ms", "2026-03-02T00:00:00Z", "2026-03-02T00:00:01Z"},
		{"0 0 29 2 *", "2026-03-02T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"30 2 */2 * ?", "2026-03-02T00:00:00Z", "2026-03-03T02:30:00Z"},
		{"10/20 * * * *", "2026-03-02T00:31:00Z", "2026-03-02T00:50:00Z"},
		{"@hourly", "2026-03-02T00:00:00Z", "2026-03-02T01:00:00Z"},
		{"@weekly", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z"},
		{"@every 90m", "2026-03-02T00:00:00Z", "2026-03-02T01:30:00Z"},
		{"0 0 30 2 *", "2026-03-02T00:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		s, err := cron.Parse(c.schedule)
		if err != nil {
			t.Error(err)
			continue
		}
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(from).Format(time.RFC3339); got != c.want {
			t.Errorf("%s after %s: %s; want %s", c.schedule, c.from, got, c.want)
		}
	}
	for _, bad := range []string{"", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "1-2-3 * * * *", "1/2/3 * * * *", "-1 * * * *", "TZ=Nowhere * * * * *", "TZ=0", "TZ=UTC", "5-1 * * * *", "*/0 * * * *", "a * * * *", "@never", "@every x"} {
		if _, err := cron.Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// In some zones daylight saving time begins at midnight, so that this hour does not exist.
func TestADayWithoutMidnight(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Skip(err)
	}
	s, err := cron.Parse("0 0 1 * *")
	if err != nil {
		t.Fatal(err)
	}
	got := s.Next(time.Date(2024, 9, 5, 10, 0, 0, 0, zone)) // the change is on the 8th
	if want := time.Date(2024, 10, 1, 0, 0, 0, 0, zone); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Last finds what a scan with Next finds.
func TestLastIsTheLastOfAllTimes(t *testing.T) {
	rome, err := time.LoadLocation("Europe/Rome")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2024, 3, 29, 23, 59, 30, 5, rome) // before daylight saving time starts
	for _, text := range []string{"* * * * *", "0,1 0 * * *", "30 2 * * *", "*/7 3-5 * * 1", "0 0 29 2 *", "0 0 31 2 *", "@every 90s", "@every 25h"} {
		schedule, err := cron.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, elapsed := range []time.Duration{-time.Hour, 0, time.Second, time.Minute, 89 * time.Second, 90 * time.Second, 7 * time.Hour, 60 * time.Hour} {
			now := start.Add(elapsed)
			var want time.Time
			for at := schedule.Next(start); !at.IsZero() && !at.After(now); at = schedule.Next(at) {
				want = at
			}
			if got := schedule.Last(start, now); !got.Equal(want) {
				t.Errorf("%s after %v: %v, want %v", text, elapsed, got, want)
			}
		}
	}
}
