package shards

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(second int) time.Time { return time.Unix(int64(1000+second), 0) }

// wrote is a write of a replica at a version, permitted at a second.
func wrote(version uint64, replica string, epoch uint64, number, asked int) write {
	return write{key: "k", version: version, entry: entry{Replica: replica, Epoch: epoch, Number: number, Asked: at(asked)}}
}

// ruled is an assignment of slot 0 at a version, seen at a second.
func ruled(version uint64, owner string, epoch uint64, seen int) assignment {
	r := assignment{version: version, seen: at(seen)}
	r.places[0] = place{owner, epoch}
	return r
}

func worked(process string, from, to int) stint {
	return stint{span{at(from), at(to)}, process, "k"}
}

// finished is the entry with which a replica ended a reconcile, at a version and a second.
func finished(version uint64, replica string, number, second int) write {
	w := wrote(version, replica, 1, number, second)
	w.Ended = at(second)
	return w
}

// short is part of a second.
func short(second int, ms time.Duration) time.Time { return at(second).Add(ms * time.Millisecond) }

func touched(version uint64, second int) touch { return touch{"k", version, at(second)} }

// A history has a violation or not, and the judge finds it.
func TestTheJudgeFindsWorkThatMustNotBe(t *testing.T) {
	moved := []assignment{ruled(1, "a", 1, 1), ruled(10, "a", 2, 10), ruled(20, "b", 3, 20)}
	for name, c := range map[string]struct {
		history
		wrong, inFlight int
		about           string
	}{
		"P01 a hand-over": {history: history{
			writes: []write{wrote(2, "a", 1, 1, 2), wrote(12, "a", 1, 2, 12), wrote(21, "b", 3, 3, 21)}, assignments: moved,
			stints: []stint{worked("a", 2, 12), worked("b", 21, 22)},
		}},
		"P01 two at a time": {history: history{stints: []stint{worked("a", 1, 5), worked("b", 4, 6)}}, wrong: 1, about: "worked until"},
		"P01 one inside the other": {
			history: history{stints: []stint{worked("a", 1, 9), worked("a", 2, 3), worked("b", 8, 10)}}, wrong: 1, about: "worked until",
		},
		"P01 a paused one": {history: history{
			stints: []stint{worked("a", 1, 30), worked("b", 20, 21)}, stalls: map[string][]span{"a": {{at(2), at(29)}}},
		}},
		"P01 the pause of another process": {history: history{
			stints: []stint{worked("a", 1, 30), worked("b", 20, 21)}, stalls: map[string][]span{"c": {{at(2), at(29)}}},
		}, wrong: 1, about: "worked until"},
		"P01 a pause that began later": {history: history{
			stints: []stint{worked("a", 1, 30), worked("b", 20, 21)}, stalls: map[string][]span{"a": {{at(25), at(29)}}},
		}, wrong: 1, about: "worked until"},
		"P01 a pause that began less than a sample after the reconcile": {history: history{
			stints: []stint{worked("a", 1, 30), worked("b", 20, 21)}, stalls: map[string][]span{"a": {{short(0, 970), at(29)}}},
		}},
		"P01 two pauses": {history: history{
			stints: []stint{worked("a", 1, 50), worked("b", 20, 21), worked("b", 40, 41)},
			stalls: map[string][]span{"a": {{short(0, 970), at(29)}, {short(29, 100), at(48)}}},
		}},
		"P01 between two pauses": {history: history{
			stints: []stint{worked("a", 1, 50), worked("b", 20, 21), worked("b", 32, 33)},
			stalls: map[string][]span{"a": {{at(2), at(29)}, {at(35), at(48)}}},
		}, wrong: 1, about: "worked until"},
		"P01 after a pause whose end was not sampled yet": {history: history{
			stints: []stint{{span{short(28, 980), at(30)}, "a", "k"}, worked("b", 28, 31)}, stalls: map[string][]span{"a": {{at(2), at(29)}}},
		}, wrong: 1, about: "worked until"},
		"P01 a pause that began a sample before the reconcile": {history: history{
			stints: []stint{worked("a", 1, 30), worked("b", 20, 21)}, stalls: map[string][]span{"a": {{short(0, 950), at(29)}}},
		}, wrong: 1, about: "worked until"},
		"P03 on its way": {history: history{
			writes: []write{wrote(2, "a", 1, 1, 2), wrote(21, "a", 1, 2, 9)}, assignments: moved,
		}, inFlight: 1},
		"P03 permitted too late": {history: history{
			writes: []write{wrote(2, "a", 1, 1, 2), wrote(25, "a", 1, 2, 21)}, assignments: moved,
		}, wrong: 1, about: "was permitted at"},
		"P03 an older epoch, as without a fence": {history: history{
			writes: []write{wrote(2, "a", 1, 1, 2), wrote(21, "b", 3, 2, 20), wrote(22, "a", 1, 3, 9)}, assignments: moved,
		}, wrong: 1, inFlight: 1, about: "after one of b in epoch 3"},
		"P03 two writers in an epoch": {history: history{
			writes: []write{wrote(2, "a", 1, 1, 2), wrote(3, "b", 1, 2, 3)}, assignments: moved,
		}, wrong: 1, about: "in epoch 1 after one of a in epoch 1"},
		"P02 in time":             {history: history{touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 45)}}},
		"P02 too late":            {history: history{touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 46)}}, wrong: 1, about: "the bound is 45s"},
		"P02 never":               {history: history{touches: []touch{touched(3, 0)}, writes: []write{finished(2, "a-x", 1, 1)}}, wrong: 1, about: "never reconciled"},
		"P02 another key":         {history: history{touches: []touch{{"other", 1, at(0)}}, writes: []write{finished(2, "a-x", 1, 1)}}, wrong: 1, about: "other@1"},
		"P02 begun and not ended": {history: history{touches: []touch{touched(1, 0)}, writes: []write{wrote(2, "a-x", 1, 1, 1)}}, wrong: 1, about: "never reconciled"},
		"P02 after a membership change": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 60)}, changes: []change{{at(20), "b joined"}},
		}},
		"P02 too late after a membership change": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 66)}, changes: []change{{at(20), "b joined"}, {at(70), "b left"}},
		}, wrong: 1, about: "46s after"},
		"P02 during a fault": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 100)}, faults: []span{{at(10), at(200)}},
		}},
		"P02 too late after a fault": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 100)}, faults: []span{{at(10), at(50)}, {at(110), at(120)}},
		}, wrong: 1, about: "50s after"},
		"P02 stalled": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 55)}, stalls: map[string][]span{"b": {{at(10), at(20)}}},
		}},
		"P02 stalls count once": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 61)}, stalls: map[string][]span{"b": {{at(10), at(20)}}, "c": {{at(12), at(25)}, {at(90), at(99)}}},
		}, wrong: 1, about: "the bound is 1m0s"},
		"P02 after a long reconcile": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 50)}, stints: []stint{worked("b", 0, 10)},
		}},
		"P02 in the queue of its replica": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 60)},
			stints: slices.Repeat([]stint{worked("a", 0, 10), worked("a", 10, 20)}, workers),
		}},
		"P02 in the queue of another replica": {history: history{
			touches: []touch{touched(1, 0)}, writes: []write{finished(2, "a-x", 1, 60)},
			stints: slices.Repeat([]stint{worked("b", 0, 10), worked("b", 10, 20)}, workers),
		}, wrong: 1, about: "the bound is 55s"},
		"P02 the last of two changes": {history: history{
			touches: []touch{touched(1, 0), touched(2, 10)}, writes: []write{finished(3, "a-x", 1, 50)},
		}},
		"P02 two changes, the first too late": {history: history{
			touches: []touch{touched(1, 0), touched(3, 50)}, writes: []write{finished(2, "a-x", 1, 46), finished(4, "a-x", 2, 51)},
		}, wrong: 1, about: "k@1"},
		"a lost write": {history: history{
			writes: []write{wrote(2, "a", 1, 1, 2), wrote(3, "a", 1, 1, 3)}, assignments: moved,
		}, wrong: 1, about: "entry 1 of a follows entry 1"},
	} {
		v := judge(c.history)
		if len(v.wrong) != c.wrong || v.inFlight != c.inFlight || c.about != "" && !strings.Contains(strings.Join(v.wrong, "\n"), c.about) {
			t.Errorf("%s: %d in flight, wrong: %q; want %d, and %d about %q", name, v.inFlight, v.wrong, c.inFlight, c.wrong, c.about)
		}
	}
}

func TestTheAssignmentIsRead(t *testing.T) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"tarn.dev/shard-slots": "0-3 a-x#1@7\n4 a-x#1>b-y@8\n5-254 -@0\n255 b-y#12@9\n",
	}}}
	all, err := parsePlaces(l)
	if err != nil || all[0] != (place{"a-x", 7}) || all[3] != all[0] || all[4] != (place{"a-x", 8}) || all[200] != (place{"-", 0}) || all[255] != (place{"b-y", 9}) {
		t.Errorf("read %v, %v", all, err)
	}
	l.Annotations["tarn.dev/shard-slots"] = "0-3 a#1@x\n"
	if _, err := parsePlaces(l); err == nil {
		t.Error("a line without an epoch was read")
	}
}
