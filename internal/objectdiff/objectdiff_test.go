package objectdiff_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tarnproject/tarn/internal/objectdiff"
)

func TestFirstStopsAfterSomeEdits(t *testing.T) {
	old, new := map[string]any{}, map[string]any{}
	var listed, set []any
	for i := range 1000 {
		new[fmt.Sprint("field", i)] = int64(i)
		listed = append(listed, map[string]any{"name": fmt.Sprint(i)})
		set = append(set, fmt.Sprint(i))
	}
	for what, pair := range map[string][2]any{
		"fields": {old, new}, "elements": {[]any{}, listed}, "scalars": {[]any{"none"}, set}, "nested": {map[string]any{"a": old}, map[string]any{"a": new}},
	} {
		all := objectdiff.Diff(pair[0], pair[1])
		first := objectdiff.First(pair[0], pair[1], 7)
		if len(all) < 1000 || !reflect.DeepEqual(first, all[:7]) {
			t.Errorf("%s: %d edits, of which the first are %v", what, len(all), first)
		}
		if objectdiff.First(pair[0], pair[0], 7) != nil {
			t.Errorf("%s differ from themselves", what)
		}
	}
}
