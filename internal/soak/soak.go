// Package soak scales the tests that get better the longer they run: random histories,
// simulations, and large inputs. Only tests import it.
//
// A test states the number of rounds that `make test` can afford. The test flag -soak=N
// multiplies that number by N, and also rapid's 100 checks of each property; `make soak`
// passes it to every package whose tests import this one. With -short a fifth is run, the
// same part as of rapid's checks. With -race and without -soak, rapid makes 20 checks: each
// costs about ten times as much there.
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
		if err := flag.Set("rapid.checks", "20"); err != nil {
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
	return checks.Value.Set(strconv.Itoa(usual * n))
}

// Rounds returns how many rounds a test runs whose usual number is n: n times -soak, or a
// fifth of n, but at least one, with -short.
func Rounds(n int) int {
	n *= int(scale)
	if testing.Short() {
		n = (n + 4) / 5
	}
	return n
}

// Measures skips a test that counts allocations or bytes, or that fills something to its
// limit, in a binary with the race detector: that is slow, allocates by itself, and finds nothing in
// such a test. `make test` runs these tests without it.
func Measures(t testing.TB) {
	t.Helper()
	if race {
		t.Skip("it measures, which make test does without -race")
	}
}
