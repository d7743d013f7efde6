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
	want := 21
	if testing.Short() {
		want = 5
	}
	if got := Rounds(7); got != want {
		t.Errorf("%d rounds, want %d", got, want)
	}
	if got := checks.Value.String(); got != "300" {
		t.Errorf("rapid.checks is %s, want 300", got)
	}
	for _, text := range []string{"0", "-1", "x"} {
		if flag.Set("soak", text) == nil {
			t.Errorf("-soak=%s is accepted", text)
		}
	}
}
