package store_test

import (
	"encoding/json"
	"fmt"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

type named interface{ ID() string }

type car struct{ Name, Colour string }

func (c *car) ID() string { return c.Name }

type plate struct{ Name string }

func (p *plate) ID() string { return p.Name }

// A store of cars, of which some readers need the names only.
func ExampleReading() {
	form := store.Packed(
		func(obj named) ([]byte, error) { return json.Marshal(obj) },
		func(raw []byte) (named, error) { c := &car{}; return c, json.Unmarshal(raw, c) })
	cars := store.Must(store.New(object.Keyed(func(n named) object.Key { return object.Key{Name: n.ID()} }), store.Options[named]{Form: form}))
	if err := cars.Set(&car{"mini", "red"}); err != nil {
		panic(err)
	}
	plates := store.NewReading(func(raw []byte) named {
		p := &plate{}
		if json.Unmarshal(raw, p) != nil {
			return nil
		}
		return p
	})
	byLength := store.NewIndex("length", func(n named) int { return len(n.(*plate).Name) }).By(plates.Owned())
	cars.AddIndex(byLength)
	cars.View(func(snap store.Snapshot[named]) {
		for obj := range byLength.Get(snap, 4) {
			fmt.Printf("%+v\n", obj)
		}
		obj, _ := snap.With(plates.Owned()).Get(object.Key{Name: "mini"})
		obj.(*plate).Name = "mine" // the reader owns it
		obj, _ = snap.With(plates.Kept()).Get(object.Key{Name: "mini"})
		fmt.Printf("%+v\n", obj)
	})
	change := object.Change[named]{Value: object.Decoded[named](&car{"van", "blue"})} // of a subscription
	fmt.Printf("%+v, decoded already\n", plates.Of(change.Value))
	// Output:
	// &{Name:mini Colour:red}
	// &{Name:mini}
	// &{Name:van Colour:blue}, decoded already
}
