// Package soak scales the tests that get better the longer they run: random histories,
// simulations, and large inputs. Only tests import it.
//
// A test states the number of rounds that `make test` can afford without the race detector.
// With -race, where a round costs about ten times as much, and with -short a fifth is run.
// The test flag -soak=N multiplies the number by N. The same holds for rapid's 100 checks of
// each property. `make soak` passes -soak to every package with such tests.
package soak

import (
	"flag"
	"fmt"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // for its flag
)

// factor is the value of -soak. It is written while flags are parsed, before the first test.
type factor int

var scale = factor(1)

func init() {
	flag.Var(&scale, "soak", "run random and long tests this many times as long")
	if race {
		if err := scale.Set("1"); err != nil {
			panic(err)
		}
	}
}

func (f *factor) String() string { return strconv.Itoa(int(*f)) }

// Set also scales rapid's checks. A -rapid.checks that comes later overrides it.
func (f *factor) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("it must be a number above 0")
	}
	*f = factor(n)
	checks := flag.Lookup("rapid.checks")
	usual, err := strconv.Atoi(checks.DefValue)
	if err != nil {
		return fmt.Errorf("rapid.checks: %w", err)
	}
	if race { // rapid itself takes a fifth with -short
		usual = fifth(usual)
	}
	return checks.Value.Set(strconv.Itoa(usual * n))
}

// Rounds returns how many rounds a test runs whose usual number is n: n times -soak, and of
// that a fifth, but at least one, with -race or -short.
func Rounds(n int) int {
	n *= int(scale)
	if race || testing.Short() {
		n = fifth(n)
	}
	return n
}

// Part returns all cases of a test in one goroutine, or every fifth of them with -race.
func Part[T any](all []T) []T {
	if !race {
		return all
	}
	var part []T
	for i := 0; i < len(all); i += 5 {
		part = append(part, all[i])
	}
	return part
}

func fifth(n int) int { return (n + 4) / 5 }

// Measures skips a test that counts allocations or bytes, fills something to its limit, or
// simulates in one goroutine, in a binary with the race detector: that is slow, allocates by
// itself, and finds nothing in such a test. `make test` runs these tests without it.
func Measures(t testing.TB) {
	t.Helper()
	if race {
		t.Skip("it measures, which make test does without -race")
	}
}
