package clientgo_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tarnproject/tarn/internal/soak"
)

// runs returns how many seeds each differential test goes through.
func runs() int { return soak.Rounds(30) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
