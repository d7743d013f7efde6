package soak

import (
	"flag"
	"testing"
)

func TestTheFlagScalesRoundsAndChecks(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before, usual := scale, checks.Value.String()
	defer func() {
		scale = before
		_ = checks.Value.Set(usual)
	}()
	if err := flag.Set("soak", "3"); err != nil {
		t.Fatal(err)
	}
	want, wantChecks := 21, "300"
	if race || testing.Short() {
		want = 5
	}
	if race {
		wantChecks = "60"
	}
	if got := Rounds(7); got != want {
		t.Errorf("%d rounds, want %d", got, want)
	}
	if got := checks.Value.String(); got != wantChecks {
		t.Errorf("rapid.checks is %s, want %s", got, wantChecks)
	}
	for _, text := range []string{"0", "-1", "x"} {
		if flag.Set("soak", text) == nil {
			t.Errorf("-soak=%s is accepted", text)
		}
	}
}

func TestAPartIsEveryFifthWithRace(t *testing.T) {
	want := 11
	if race {
		want = 3
	}
	if got := Part(make([]int, 11)); len(got) != want {
		t.Errorf("%d of 11, want %d", len(got), want)
	}
}
