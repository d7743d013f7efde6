package clientgo_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// runs is how many seeds each differential test goes through.
var runs = flag.Int("clientgo.runs", 150, "how many seeds each differential test runs")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
