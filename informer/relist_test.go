package informer_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/internal/sim/simtest"
)

func TestRelistListsAgainAndChangesNothing(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		inf := newInformer(t, simtest.Pods("a/1", "b/1").Source(via), podOptions{Namespaces: []string{"a", "b"}})
		inf.Relist(errors.New("before Run"))
		var d simtest.Recorder
		subscribe(t, inf, d.PodHandler(), podSub{})
		start(t, inf)
		synctest.Wait()
		d.Take()
		inf.Relist(errors.New("asked"))
		synctest.Wait()
		for _, s := range inf.Sources() {
			simtest.Want(t, "lists of "+string(s.Scope), s.Reflector.Counts.Lists, 2)
		}
		simtest.Want(t, "events", d.Take(), nil)
	})
}
