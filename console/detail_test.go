package console

import (
	"strings"
	"testing"

	"github.com/tarnproject/tarn/internal/objectdiff"
)

func TestALargeValueOfAChangeIsCut(t *testing.T) {
	large := strings.Repeat("ü", maxValue)
	for what, v := range map[string]any{"text": large, "object": map[string]any{"a": large}, "list": []any{large, large}} {
		got, _ := (*valueOf(v)).(string)
		if len(got) > maxValue+len("…") || !strings.HasSuffix(got, "ü…") {
			t.Errorf("%s: %d bytes: %s", what, len(got), got)
		}
	}
	if got := *valueOf(int64(3)); got != int64(3) {
		t.Errorf("3 is %v", got)
	}
	if valueOf(objectdiff.Absent{}) != nil {
		t.Error("an absent value is shown")
	}
}
