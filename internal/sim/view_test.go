package sim_test

import (
	"strings"
	"testing"

	"github.com/tarnproject/tarn/internal/sim"
)

// history makes a server and the states of one object on it: a1, a2 of one life, b1 of
// another, which a restore undoes, and c1, written after that at the version of b1.
func history() (s *sim.Server, a1, a2, b1, c1 *sim.Thing) {
	s = sim.NewServer(sim.Quirks{}, nil)
	get := func() *sim.Thing { return s.State(everything)[key("x")] }
	s.Create(key("x"), tier("a"))
	a1 = get()
	s.Update(key("x"), touch)
	a2 = get()
	s.Delete(key("x"))
	s.Create(key("x"), tier("a"))
	b1 = get()
	s.Rewind(2)
	s.Update(key("x"), touch)
	c1 = get()
	return s, a1, a2, b1, c1
}

func TestViewRejectsInvalidHistories(t *testing.T) {
	server, a1, a2, b1, c1 := history()
	for name, c := range map[string]struct {
		tell func(v *sim.View)
		want string // "" for nothing wrong
	}{
		"a life":               {func(v *sim.View) { v.Add(a1); v.Update(a1, a2, false); v.Delete(a2, false) }, ""},
		"two lives":            {func(v *sim.View) { v.Add(a2); v.Delete(a2, true); v.Add(b1) }, ""},
		"a restore":            {func(v *sim.View) { v.Add(b1); v.Delete(b1, true); v.Add(a2); v.Update(a2, c1, false) }, ""},
		"a resync":             {func(v *sim.View) { v.Add(a1); v.Update(a1, a1, true) }, ""},
		"gone and back":        {func(v *sim.View) { v.Add(a2); v.Delete(a2, true); v.Add(a2) }, ""},
		"added twice":          {func(v *sim.View) { v.Add(a1); v.Add(a2) }, "which it knows"},
		"updated unknown":      {func(v *sim.View) { v.Update(a1, a2, false) }, "does not know"},
		"deleted unknown":      {func(v *sim.View) { v.Delete(a1, false) }, "does not know"},
		"deleted twice":        {func(v *sim.View) { v.Add(a1); v.Delete(a1, false); v.Delete(a1, true) }, "does not know"},
		"another old":          {func(v *sim.View) { v.Add(a1); v.Update(a2, a2, false) }, "but it knows"},
		"another life":         {func(v *sim.View) { v.Add(a2); v.Update(a2, b1, false) }, "another object"},
		"deletes another life": {func(v *sim.View) { v.Add(b1); v.Delete(a2, false) }, "but it knows"},
		"another last state":   {func(v *sim.View) { v.Add(a2); v.Delete(a1, true) }, "last saw"},
		"deletes too early":    {func(v *sim.View) { v.Add(a2); v.Delete(a1, false) }, "older"},
		"update goes back":     {func(v *sim.View) { v.Add(c1); v.Update(c1, a1, false) }, "goes back"},
		"addition goes back":   {func(v *sim.View) { v.Add(c1); v.Delete(c1, true); v.Add(a2) }, "goes back"},
		"a resync of another":  {func(v *sim.View) { v.Add(a1); v.Update(a1, a2, true) }, "resync"},
		"from an old history":  {func(v *sim.View) { v.Add(c1); v.Delete(c1, true); v.Add(b1) }, "goes back"},
	} {
		v := sim.NewView("view", server, nil)
		c.tell(v)
		if err := v.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestViewComparesWithAState(t *testing.T) {
	server, a1, a2, _, c1 := history()
	v := sim.NewView("view", server, nil)
	v.Add(a1)
	v.Update(a1, a2, false)
	expectError(t, v.Compare(server.State(everything)), c1.String())
	v.Update(a2, c1, false)
	if err := v.Compare(server.State(everything)); err != nil {
		t.Error(err)
	}
	v.Delete(c1, true)
	expectError(t, v.Compare(server.State(everything)), "has nothing")
}
