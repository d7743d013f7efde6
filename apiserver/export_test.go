package apiserver

import "testing"

// ExploreQuietly is Explore that returns the first schedule that fails and its report instead
// of failing the test, and the number of runs.
func ExploreQuietly(t *testing.T, opts ExploreOptions, test func(t testing.TB, server *Server)) (failed, report string, runs int) {
	t.Helper()
	x := newExploration(opts, test)
	first := x.run(t, nil)
	if first.failure != "" {
		t.Fatalf("without faults: %s", first.failure)
	}
	runs = 1
	x.explore(first, func(s schedule) (outcome, bool) {
		runs++
		result := x.run(t, s)
		if result.failure != "" {
			failed, report = s.String(), result.explain(s)+"\n"+result.failure
		}
		return result, result.failure == ""
	})
	return failed, report, runs
}
