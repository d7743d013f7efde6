package store_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
)

// Every type of event (an Unknown deletion is like one whose last state can be read), of the object held and of another one of its name, at every relation to the
// version held (11) and to the newest version that the scope has seen (20), which is complete or
// that of a deletion.
func TestW14_WhatAnEventDoesFollowsFromWhatIsHeldAndWhatTheScopeHasSeen(t *testing.T) {
	for _, c := range []struct {
		kind    object.Kind
		held    bool
		same    bool // of the UID held
		applies []int
	}{
		{object.Added, true, true, []int{25}},
		{object.Updated, true, true, []int{25}},
		{object.Deleted, true, true, []int{11, 15, 20, 25}},
		{object.Added, true, false, []int{25}},
		{object.Updated, true, false, []int{25}},
		{object.Deleted, true, false, []int{20, 25}},
		{object.Added, false, true, []int{25}},
		{object.Updated, false, true, []int{25}},
		{object.Deleted, false, true, nil},
		// An object that cannot be decoded ends the life of another UID only (L11).
		{object.Quarantined, true, true, nil},
		{object.Quarantined, true, false, []int{25}},
		{object.Quarantined, false, true, nil},
	} {
		for _, v := range []int{10, 11, 15, 20, 25} {
			for _, open := range []bool{false, true} {
				unknown := c.kind == object.Deleted && open
				t.Run(fmt.Sprintf("%v, held %v, same UID %v, at %d, after a deletion %v", c.kind, c.held, c.same, v, open), func(t *testing.T) {
					s := newPodStore(t)
					apply(t, s, 12, listed(12, pod("a/x", 11), pod("a/y", 12)))
					if !c.held {
						apply(t, s, 13, event(object.Deleted, pod("a/x", 13)))
					}
					if open {
						apply(t, s, 14, event(object.Deleted, pod("a/y", 20)))
					} else {
						apply(t, s, 20)
					}
					p := pod("a/x", v)
					if !c.same {
						p.UID = object.UID("another-" + strconv.Itoa(v))
					}
					change := event(c.kind, p)
					change.Unknown = unknown
					if c.kind == object.Quarantined {
						change.Value = object.Value[*corev1.Pod]{Encoded: object.Unreadable[*corev1.Pod]{}}
					}
					changes := apply(t, s, max(20, v), change)
					if len(changes) > 0 != slices.Contains(c.applies, v) {
						t.Errorf("%q", changes)
					}
				})
			}
		}
	}
}
