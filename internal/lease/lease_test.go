package lease

import (
	"testing"
	"time"
)

func TestTheClockThatShowsMoreCounts(t *testing.T) {
	then := Moment{Mono: time.Second, Wall: time.Unix(100, 0)}
	suspended := Moment{Mono: 2 * time.Second, Wall: time.Unix(160, 0)}
	setBack := Moment{Mono: 61 * time.Second, Wall: time.Unix(50, 0)}
	for _, now := range []Moment{suspended, setBack} {
		if d := now.Since(then); d != time.Minute {
			t.Errorf("%v passed from %v to %v", d, then, now)
		}
	}
}

func TestTheWallClockHasNoMonotonicPart(t *testing.T) {
	c := NewClock()
	a := c.Now()
	if a.Mono < 0 || a.Wall.String() != a.Wall.Round(0).String() {
		t.Errorf("the clock reads %v", a)
	}
	if d := c.Now().Since(a); d < 0 {
		t.Errorf("%v passed", d)
	}
}

func TestAMissingValueIsZero(t *testing.T) {
	if n := 3; Value(&n) != 3 || Value[int](nil) != 0 {
		t.Error("Value is wrong")
	}
}
